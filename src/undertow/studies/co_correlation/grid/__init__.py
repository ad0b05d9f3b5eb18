"""The study's main part, on which most claims are judged, and the paper's whole grid, which is drawn."""
