"""Graphs: a function's operators as nodes, recorded on real or fake tensors, printed, checked, run, pickled."""
