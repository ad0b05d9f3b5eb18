"""How robust are averaged features, and how robust could a network be? Radii by size, and f_robust (F-f … F-j)."""
