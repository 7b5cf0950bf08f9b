"""Fourier transforms: library calls of the driver over gapless memory."""
