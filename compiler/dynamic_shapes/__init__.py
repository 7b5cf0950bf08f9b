"""Graphs that hold for many sizes: what `dynamic=` of `tt.compile` makes of a function that is called with several.

`observed_size` gives Python code sizes that note what is decided by them, `probes` captures a function at sizes that
nobody has called it with, `polynomials` says how a number follows from sizes, and `template` compares captures and
makes the graph of any other size. `sizes_seen` decides which dimensions vary. Nothing here generates code.
"""
