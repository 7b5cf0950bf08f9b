"""Random numbers: Philox by counter, the same on every backend, and what is drawn with it."""
