"""Parallelism applied to modules in-place (`torch.distributed._composable`): older names of `fully_shard` and
its policies.
"""
