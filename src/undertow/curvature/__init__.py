"""Curvature of a loss in the parameters: Hessian and Gauss–Newton products, top eigenvalues and traces with errors."""
