"""Figures 1c, 1d, 3 and 6: the co-correlation over training, how much it rises, and where (§5, §6)."""
