"""What carries bytes between processes: `communicator` says what each does; `mpi` is the one on the host."""
