"""Adam on linear networks: what ε does to it (O-e), and batches of one sample (O-f)."""
