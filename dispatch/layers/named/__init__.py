"""Dimension names: the Named key's planner, the rule of each operator, and the methods of named tensors."""
