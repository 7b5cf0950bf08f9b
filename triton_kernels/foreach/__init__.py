"""Operators over lists of tensors, each one launch for all tensors of a dtype."""
