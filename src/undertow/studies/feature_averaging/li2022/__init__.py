"""The lower-bound example of Li et al. 2022: linear, perfect and fragile, while a robust classifier exists (F-s).

Points (s, yγ): vertices s of a cube with arbitrary labels, and one short coordinate that gives the label away. A linear
classifier, trained by gradient descent, has only that coordinate to go by; the nearest-neighbour classifier of the same
points, constructed and not trained, is robust within half the distance of two vertices, and has to remember them all.
"""
