"""Attacks: from above, adversarial examples that were found."""
