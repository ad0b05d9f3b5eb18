"""Certificates: from below, radii within which there is no adversarial example."""
