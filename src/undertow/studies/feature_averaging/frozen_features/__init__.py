"""Averaging and decoupling on a frozen network's features: cosines of thirty neurons with the classes' means (F-m)."""
