"""Pooling over windows, and its gradients, which gather and use no atomics."""
