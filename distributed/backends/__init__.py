"""Backends that move bytes between ranks. `communicator` defines the interface; `mpi` is the backend on the
host.

`agreement` defines which parts of their calls ranks compare; `checked` compares more parts, on request.
"""
