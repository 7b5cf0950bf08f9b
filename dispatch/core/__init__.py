"""How a call finds its kernel (ATen/core): operators, kernels, tables, registrations, packets of overloads.

May be imported from here: `Dispatcher`, `OperatorEntry`, `KernelFunction`, `OverloadPacket`. What a kernel
computes does not belong here.
"""
