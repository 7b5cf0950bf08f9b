"""Scaled dot product attention, forward and backward, by tiles of scores that never leave the chip."""
