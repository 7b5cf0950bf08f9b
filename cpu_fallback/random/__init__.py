"""Random numbers: Philox and what is drawn from it."""
