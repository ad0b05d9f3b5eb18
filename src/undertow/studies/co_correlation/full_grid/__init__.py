"""The paper's own grid, ten widths × seven q with one seed: drawn, not judged."""
