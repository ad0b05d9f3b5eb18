"""Does training on help or hurt? Narrow two-layer networks where KKT points are said to be fragile (M-s, M-p)."""
