"""Random ops: Philox, and the distributions made with it."""
