"""Runs that come to rest: the mixture trained to a loss of 10⁻⁵⁰, where limits and KKT properties can be seen."""
