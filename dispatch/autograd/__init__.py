"""Autograd as a dispatch layer: nodes, the engine, saved tensors, history of views, grad modes.

Generated wrappers (`dispatch/generated/autograd_*.py`) record nodes and redispatch below; the formulas they
evaluate stand in `derivatives.yaml`, those that need more than a line in `formulas.py`. Kernels do not
belong here: backward is made of dispatched operators.
"""
