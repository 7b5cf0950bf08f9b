"""Layers above and between the kernels: trace, modes, tensor subclasses, graphs, functionalization.

Each is usable alone and nested, and costs nothing while it is off. Kernels and formulas do not belong here.
"""
