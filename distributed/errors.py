"""Errors of distributed programs (`torch.distributed`'s exceptions)."""

from __future__ import annotations

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "QueueEmptyError"]


class DistError(RuntimeError):
    """Something between processes went wrong (`torch.distributed.DistError`)."""


class DistBackendError(DistError):
    """A communication failed, or did not end in time (`torch.distributed.DistBackendError`)."""


class DistStoreError(DistError):
    """Failure or timeout of a store's request (`torch.distributed.DistStoreError`)."""


class DistNetworkError(DistError):
    """A connection could not be made, or broke (`torch.distributed.DistNetworkError`)."""


class QueueEmptyError(DistStoreError):
    """Error of an empty queue of a store (`torch.distributed.QueueEmptyError`)."""
