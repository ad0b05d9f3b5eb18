"""Gradient descent's networks against the KKT network of Frei et al., on the clusters of D_binary (F-q).

Two-layer ReLU networks with biases and a fixed head are trained by full-batch gradient descent on the logistic loss.
As the loss falls, their direction should approach a KKT point of the margin problem; on clusters such a point averages
features, and one perturbation for each class, −y Σ_j y_j μ_j of length O(√(d/k)), flips nearly every point.
"""
