"""Losses that are one launch, where a composition would be several."""
