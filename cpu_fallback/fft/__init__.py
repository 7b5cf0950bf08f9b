"""Fourier transforms by `scipy.fft`."""
