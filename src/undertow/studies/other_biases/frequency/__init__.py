"""Low frequencies first (Rahaman et al. 2019): B-e, B-f and B-g.

ReLU networks learn a sum of sines of equal amplitudes, or of amplitudes that grow with the frequency, by Adam on all
points. A frequency counts as learned at the first reading with a residual of 0.2 or less; one that is not
learned counts with all of the steps. One set of phases, ten starts.
"""
