"""Picking, placing, masking, searching and embedding."""
