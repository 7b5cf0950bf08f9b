"""Autocast: the kernels of its keys, the lists of operators by policy, the context, a thread's state, `GradScaler`."""
