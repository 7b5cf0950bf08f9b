"""Communication of `nn.parallel.DistributedDataParallel`: averages of gradients, and identical modules on all
ranks.

`buckets` groups gradients into buckets, and `reducer` reduces them during backward. `grad_bucket` is a
communication hook's view of a bucket. `module_states` makes parameters and buffers equal on all ranks.
`nn.parallel` defines the modules and calls this package.
"""
