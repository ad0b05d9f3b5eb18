"""Runs that come to rest: the mixture trained until limits and KKT properties can be seen."""
