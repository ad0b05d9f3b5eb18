"""Low rank: products of matrices learn singular values one by one (Arora et al. 2019; Li, Luo & Lyu 2021): B-k … B-m.

A random matrix of low rank is completed from twice as many entries as it has degrees of freedom, as in the paper, by
gradient descent on the layers of a product. Every seed has a matrix, a set of entries and a start of its own. Beside it
stands the solution of least nuclear norm that has the entries seen.
"""
