"""Ours: a law for the stable rank's limit, and whether a low rank makes networks fragile."""
