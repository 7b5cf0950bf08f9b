"""Validation of communication hooks of `DistributedDataParallel`."""

from __future__ import annotations

import inspect
from typing import Any, NoReturn

from ...dispatch.tensor import Tensor
from ...distributed.data_parallel.grad_bucket import GradBucket
from ...futures import Future

__all__ = ["check_comm_hook"]


def check_comm_hook(hook: Any) -> None:
    """Raise TypeError or ValueError for what cannot be a communication hook."""
    if not callable(hook):
        raise TypeError("Communication hook must be callable.")
    signature = inspect.signature(hook)
    bucket = signature.parameters.get("bucket")
    if bucket is not None and not _is_declared(bucket.annotation, GradBucket, "GradBucket"):
        _refuse_hook("bucket annotation should be dist.GradBucket")
    if not _is_declared(signature.return_annotation, Future[Tensor], "Future[Tensor]"):
        _refuse_hook("return annotation should be torch.futures.Future[torch.Tensor]")


def _is_declared(annotation: Any, expected: Any, name: str) -> bool:
    if annotation in (inspect.Signature.empty, expected, Any, "Any"):
        return True
    return isinstance(annotation, str) and annotation.replace("tt.", "").endswith(name)


def _refuse_hook(why: str) -> NoReturn:
    raise ValueError(f"Communication hook: {why}.")
