"""Checkpoints in folders, by PyTorch's path (`torch.distributed.checkpoint.filesystem`)."""

from .filesystem_reader import FileSystemReader
from .filesystem_writer import FileSystemWriter

__all__ = ["FileSystemReader", "FileSystemWriter"]
