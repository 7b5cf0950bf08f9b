"""Parallelism that is applied to modules in place (`torch.distributed._composable`): older names of what has others
now."""
