"""Capture: a Python function runs once on fake tensors, and becomes a graph and the guards under which it is valid.

- `recording` runs the function through `traced_function`, and returns its graph.
- The derivative has several `stages` if results depend on each other.
- `shared_results` finds results that share memory; `held_data` makes `Tensor.data` a step.
- `frames` records the Python code that ran, and `values_read` the tensors whose values Python read.
- `reachable` finds the objects that this code can have read and their `locations`.
- `objects` knows which of them are immutable, and `guards` compiles a check that precedes each later call.
- `side_effects` refuses changes of Python objects and reverts them.
- `stand_ins` detects calls of `print` and of clocks.
- A function that cannot be captured raises `Unsupported` with the place, and is split there.

Capture does not depend on code generation (`passes`, `host` and `triton`).
"""
