"""Figure 1: ten points of a Gaussian mixture, with the head trained and with the head fixed; Frei et al.'s start."""
