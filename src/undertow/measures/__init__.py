"""Measures: pure functions of a network and data at one moment, one file each."""
