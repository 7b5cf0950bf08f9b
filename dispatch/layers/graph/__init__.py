"""Graphs: what a function computes as nodes, recorded for real or on fake tensors, printed, checked, run, pickled."""
