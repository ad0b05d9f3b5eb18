"""Whether training goes to flat places, and whether these are robust: B-d.min (Blanc et al. 2020) and B-n (ours).

SGD with noise on the labels moves along the minima of the square loss to where tr H is smaller. And networks of one
start, trained with several rates to one loss, have different sharpness and radii. A network has fitted at the first
reading with a training loss, on the labels without noise, of a twentieth or less.
"""
