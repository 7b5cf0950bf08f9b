"""Dimension names: the Named key's planner, the rule of each operator, and what a tensor with names can do."""
