"""What `nn.parallel.DistributedDataParallel` does between processes: the averages of gradients, and equal modules.

`buckets` puts gradients together, `reducer` sends them while backward goes on, `grad_bucket` is what a communication
hook sees of them; `module_states` makes parameters and buffers equal. Modules, and when they are called, are the
business of `nn.parallel`.
"""
