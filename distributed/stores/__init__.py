"""Stores: key-value stores through which processes find each other (`torch.distributed.Store`).

`store` defines the interface. `hash_store` keeps values in this process, `file_store` in a shared file.
`tcp_store` keeps them in one process, which serves the others over TCP. `prefix_store` gives users of one
store separate key spaces. Values are bytes, and no value from a store is executed.
"""
