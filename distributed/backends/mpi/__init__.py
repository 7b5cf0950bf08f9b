"""MPI backend, on mpi4py.

`process_management` starts MPI in processes that find each other through a store; `library` ensures that it
starts once. `worker` runs long communications. `communicator` implements a group's collectives and messages.
`agreement` and `messages` compare the ranks' calls.
"""
