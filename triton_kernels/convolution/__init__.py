"""Convolutions and their gradients as implicit matrix products: columns are never written to memory."""
