"""Does gradient descent average features? The weights on clusters and their coefficients λ (F-a … F-e)."""
