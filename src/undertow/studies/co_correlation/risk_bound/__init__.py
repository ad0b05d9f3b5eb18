"""Theorem 4.1 of Wang, Min & Ruan (2024) on records: R_rob(r) ≲ R + r·S(L∘f).

With gap(r) = R + r·S − R_rob(r) the inequality as printed says gap ≥ 0; gap/(r·S) is the share of the
allowance r·S that is left over. To first order the rise of the risk is r·E‖∇L‖ ≤ r·√E‖∇L‖² = r·S, so the
share starts at 1 − E‖∇L‖/S ≥ 0. For a linear network the loss is convex in x and so is its supremum in r:
the share can only fall from there.

R_rob comes from attacks and is a lower bound: a negative gap refutes the inequality at that r, a positive one
stands as far as these attacks reach. On a finite sample the theorem is about the sample's own distribution,
so that few test points suffice to test it.

Units of r. The theorem's ball knows no box, so there is none here. For ``authors`` r is in raw pixels
([0, 1] images): the networks see 2r, and S is the slope per raw pixel. For ``paper`` the data of the theorem
*are* the unit vectors, each image scaled by its own norm, and r is relative to it: an MNIST image has a norm
of about 9, so that the paper's attack budget of 0.5 pixels is r ≈ 0.055.
"""
