"""Linear classifiers on separable data: gradient descent and the L2 path both point to the support vector machine."""
