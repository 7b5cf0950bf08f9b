"""Autocast: the kernels of its keys, the lists of operators by policy, the context, the state of a thread."""
