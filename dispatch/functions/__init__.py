"""Public functions written by hand over operators, with signatures that no schema can say.

The root re-exports them. They call operators and nothing else; kernels and meta functions do not belong here.
"""
