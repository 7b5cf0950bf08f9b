"""Norms of layers, batches and groups, and softmax."""
