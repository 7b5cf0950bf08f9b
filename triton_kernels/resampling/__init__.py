"""Padding, interpolation, sampling at given places, and windows as columns: gathered in both directions, no atomics."""
