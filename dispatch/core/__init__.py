"""Dispatcher core (ATen/core): operators, kernels, dispatch tables, registrations and overload packets.

Other packages may import `Dispatcher`, `OperatorEntry`, `KernelFunction` and `OverloadPacket`. Kernel math does not
belong here.
"""
