"""Figures 4 to 6: MNIST, Fashion-MNIST and CIFAR-10, in batches; CIFAR-10 for 2000 epochs from the smallest start."""
