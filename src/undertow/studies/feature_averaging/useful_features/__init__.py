"""Robust and non-robust features in the sense of Ilyas et al. (2019), and their relabelling experiment (F-u, F-v).

A feature f is useful where E[y f(x)] > 0, robustly useful where E[inf_δ y f(x + δ)] > 0. On D_binary a centre of unit
length has E[y f] = √d/k and the average √(d/k): read as the paper writes it, over all points, the average is the
more robust of the two, since a centre says nothing of the points of other clusters. Given a point of its own cluster
a centre has √d, and the average no more than before. Both readings are judged, at an attacker of ¾√d.

The experiment: a network is trained, its training points are moved toward target classes and labelled by these, and a
new network that sees nothing else is tested on clean points. On D_binary a network that learns Σ y x would do it from
ε = √(d/k) on, where averaged features can be attacked at all: moving a point by ε against the averages changes its
coefficient on every centre by ε/√(dk), and with the adversary's labels points add up, on each centre, to −1/k (their
own, wrongly labelled) + ε/√(dk).
"""
