"""Random ops: counter-based Philox, the same on every backend, and the distributions made with it."""
