"""Padding, interpolation, sampling at places, folding."""
