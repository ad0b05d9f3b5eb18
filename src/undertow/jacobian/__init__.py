"""Per-sample Jacobians of any network: operators, norms with error bounds, seams."""
