"""Graphs that hold for many sizes: for `dynamic=` of `tt.compile`, and for `dynamic_shapes=` of `tt.export`.

`observed_size` gives Python code sizes that note what is decided by them, `size_expressions` says how a number follows
from sizes, and `template` compares captures at several sizes and gives the steps for any other. `graph_rows` is what of
a graph is compared. For `tt.compile`, `probes` captures a function at sizes that nobody has called it with,
`recording_template` makes recordings of a template, and `sizes_seen` decides which dimensions vary. Nothing here
generates code.
"""
