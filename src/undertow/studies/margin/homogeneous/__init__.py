"""Homogeneous networks of one to four layers: the smoothed margin, the rates, the KKT conditions."""
