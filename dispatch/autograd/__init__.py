"""Autograd as a dispatch layer: nodes, the engine, saved tensors, history of views, grad modes.

Rows of `dispatch/generated/autograd` say what a node keeps, and `recorder` writes the functions that record it and
redispatch below. Formulas stand in `derivatives.yaml`, those that need more than a line in `formulas`. Kernels do not
belong here: backward is made of dispatched operators.
"""
