"""Pooling over windows and over even shares."""
