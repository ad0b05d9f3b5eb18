"""Near-orthogonality in one number, and points that go from orthogonal to one direction with nothing else changed."""
