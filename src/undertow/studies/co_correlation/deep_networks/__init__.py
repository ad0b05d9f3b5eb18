"""ResNet-50 and WRN-50-2 on CIFAR-10: does ϱ rise there too, and at which cut (§6.1, Figure 2)?

The network is ten modules in a row, conv1, bn1, act, maxpool, layer1 … layer4, pool, fc, and cut after the first
k = 1 … 9 of them. The paper draws two partitions: B1-B2 is k = 8; which k is A1-A2 it does not say, but its curve is
printed, 0.23 rising to 0.25. So ϱ is measured at all nine cuts.
"""
