"""DLPack: memory of tensors that libraries give each other without a copy (dlpack.h, version 1).

`device_type` and `structures` have the devices, the C structures and dtypes; `exported` makes capsules over memory of
ours; `imported` takes memory out of the capsules of others. Copies, devices' streams and the methods of tensors are in
`dispatch.methods.interchange`. Nothing here is imported before the first use: it needs ctypes.
"""
