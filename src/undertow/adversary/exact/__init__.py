"""Exact radii of narrow two-layer networks, by branching over their activation patterns."""
