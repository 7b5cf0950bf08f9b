"""Searches in graphs (`torch.fx.passes.utils`)."""
