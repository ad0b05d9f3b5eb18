"""Do the smallest perturbations leave the data manifold? The dimpled-manifold picture (F-r).

``manifold-subspace``: clusters in the first 20 coordinates of a larger space, so that the manifold is known exactly;
the network's start sets how large its weights across it are, which training cannot change. ``manifold-pca``: digits
on the plane of their first principal directions, and local PCA around each point. The closest adversarial examples
found (FAB, DeepFool, APGD in shrinking balls) are split into the part along the manifold and the part across it.
"""
