"""Simplicity bias: gradient descent uses the simplest feature alone, and begins as a linear model (F-t).

``slabs``: data of Shah et al. (2020) with one linear coordinate and many that need five slabs. After training, either
kind is exchanged between test points: what is lost is what the network used. ``early-linear``: a two-layer network with
a small start on a task that a linear model solves in part (parity of digits): how linear its logit is over training,
and how far it agrees with the best linear model.
"""
