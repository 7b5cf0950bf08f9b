"""Subclasses of tensors by the names that PyTorch's compiler gives them (`torch._subclasses`): no tensor is one."""
