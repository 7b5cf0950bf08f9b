"""Convolutions and their gradients as implicit GEMMs: columns are never written to memory."""
