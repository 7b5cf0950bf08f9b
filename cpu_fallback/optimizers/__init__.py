"""Optimizers' fused steps."""
