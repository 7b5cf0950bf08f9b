"""Internals of PyTorch's data loaders, by the paths that programs import (`torch.utils.data._utils`)."""

from . import collate as collate
from . import worker as worker
