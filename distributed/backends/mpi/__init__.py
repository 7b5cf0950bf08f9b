"""MPI, by mpi4py: `process_management` starts it in processes that find each other by a store, `library` has it
started once, `worker` runs what takes long, `communicator` is a group's collectives and messages,
`agreement` and `messages` compare the ranks' calls.
"""
