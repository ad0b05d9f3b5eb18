"""Slab data: from a small start a network is linear at first; its margin is locally the largest (M-k, M-l)."""
