"""Capture: a Python function is run once on fake tensors, and becomes a graph and the guards under which it holds.

`recording` runs the function, as `traced_function` calls it, and gives its graph, with a derivative in as many `stages`
as results depend on each other; `shared_results` knows which results share memory, and `held_data` makes a step of
`Tensor.data`. `frames` sees which Python code ran and `values_read` which tensors Python looked into; `reachable` finds
the objects that this code can have read and their `locations`, `objects` knows which of them stay what they are, and
`guards` makes a check of them, which each later call passes before the graph runs. `side_effects` refuses what changes
Python objects, and puts them back; `stand_ins` see calls of `print` and of clocks. A function that cannot be captured
raises `Unsupported`, which says where, and is split there.

Nothing here knows how a graph is computed: that is `passes`, `host` and `triton`.
"""
