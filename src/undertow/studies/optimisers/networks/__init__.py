"""Two-layer ReLU networks on clusters: KKT residuals in each norm (O-g), and radii for three attackers (O-h)."""
