"""Pointwise operators, activations, copies and fills."""
