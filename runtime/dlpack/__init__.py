"""DLPack: zero-copy exchange of tensor memory between libraries (dlpack.h, version 1).

`device_type` and `structures` have the devices, the C structures and dtypes. `exported` creates capsules over
triten's memory; `imported` consumes the capsules of others. Copies, streams and the tensor methods are in
`dispatch.methods.interchange`. Nothing here is imported before the first use: it needs ctypes.
"""
