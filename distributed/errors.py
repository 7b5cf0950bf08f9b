"""Errors of distributed programs (`torch.distributed`'s exceptions)."""

from __future__ import annotations

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "QueueEmptyError"]


class DistError(RuntimeError):
    """Something between processes went wrong (`torch.distributed.DistError`)."""


class DistBackendError(DistError):
    """A communication failed, or did not end in time (`torch.distributed.DistBackendError`)."""


class DistStoreError(DistError):
    """A store did not do what it was asked for, or not in time (`torch.distributed.DistStoreError`)."""


class DistNetworkError(DistError):
    """A connection could not be made, or broke (`torch.distributed.DistNetworkError`)."""


class QueueEmptyError(DistStoreError):
    """A queue of a store has nothing to give (`torch.distributed.QueueEmptyError`)."""
