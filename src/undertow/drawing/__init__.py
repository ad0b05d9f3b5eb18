"""How figures are drawn: colours that mean the same everywhere, curves over training, heat maps."""
