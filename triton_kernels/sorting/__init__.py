"""Sorting on the device, for operators and for sums over equal indices."""
