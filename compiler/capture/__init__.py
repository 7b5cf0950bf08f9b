"""Capture: a Python function is run once on fake tensors, and becomes a graph and the guards under which it holds.

`recording` runs the function and gives its graph; `frames` sees which Python code ran; `reachable` finds the objects
that this code can have read; `guards` makes a check of them, which each later call passes before the graph runs;
`side_effects` refuses functions that change Python objects, and puts back what they changed. What cannot be captured
raises `Unsupported`, which says where, and the function is split there.

Nothing here knows how a graph is computed: that is `passes`, `host` and `triton`.
"""
