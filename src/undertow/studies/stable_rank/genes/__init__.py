"""Figures 2 and 3: gene expression, many correlated genes (neuroblastoma, lymphoma) and five of them (autism)."""
