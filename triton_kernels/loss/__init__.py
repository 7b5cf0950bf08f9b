"""Losses that are one launch, where a composite would be several."""
