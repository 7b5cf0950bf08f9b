"""Stores: small values by key that processes find each other with (`torch.distributed.Store`).

`store` says what every store does. `hash_store` keeps values in this process, `file_store` in a file that processes
share, `tcp_store` in one process, which serves the others over TCP; `prefix_store` gives users of one store rooms of
their own. Values are bytes, and nothing that comes out of a store is executed.
"""
