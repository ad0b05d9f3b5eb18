"""From configurations to finished trials: groups trained and measured as one batch, by one engine or another."""
