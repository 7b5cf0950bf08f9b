"""What carries bytes between processes: `communicator` says what each does; `mpi` is the one on the host.

`agreement` says what ranks compare of their calls; `checked` compares more of them, on request.
"""
