"""Autograd as a dispatch layer: nodes, the engine, saved tensors, view histories and grad modes.

Rows of `dispatch/generated/autograd` list the contents of each node. `recorder` generates the functions that record a
node and redispatch below. Formulas are in `derivatives.yaml`; those of more than a line are in `formulas`. Kernels do
not belong here: backward consists of dispatched operators.
"""
