"""The paper's own estimators beside this library's: Algorithm 1 (plain means) and Algorithm 2 (power iteration).

Equation 9 defines ϱ by roots of mean squares; Algorithm 1 prints plain means. Algorithm 2 iterates to a relative
change of 1e-6, the authors' code stops after 30 iterations or at the first change below 1e-4, a fall included.
"""
