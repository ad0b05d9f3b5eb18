"""Sharpness and the edge of stability (Cohen et al. 2021): B-a … B-d, and B-n, whether flat means robust.

Full-batch gradient descent with rate η on Chebyshev polynomials and on deep linear networks, with momentum, under
cross-entropy; a *flow* arm has a rate so small that its threshold 2/η is never met. What words are taken for: "hovers"
is a mean ratio of sharpness to threshold between 0.9 and 1.2 after it was first met, "reaches" is beyond it.
"""
