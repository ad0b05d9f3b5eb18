"""Figures 1a, 1b and 4: energy, accuracy and robust accuracy of every network of the grid (§4, §6)."""
