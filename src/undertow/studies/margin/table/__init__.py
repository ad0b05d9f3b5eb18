"""The talk's table: one CNN at ever smaller losses, its margins and radii; both rules of the rate."""
