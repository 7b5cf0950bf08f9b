"""Check of `gradcheck` that a backward multiplies by the gradients of its outputs (torch/autograd/gradcheck.py)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...runtime.layout import sparse_coo, strided
from .gradients import grad

ATOL = 1e-8
"""How far from zero a masked gradient may be."""


def fault_of_zero_gradients(outputs: Sequence[Any], sources: Sequence[Any], is_masked: bool) -> str | None:
    """Return why the gradients for zero gradients of the outputs are wrong, or None.

    They must be zero. A sparse gradient must have its input's layout and numbers of sparse and dense dimensions.
    """
    from ..generated import functions as ops

    zeros: list[Any] = [ops.zeros_like(each) for each in outputs]
    made = grad(outputs, sources, zeros, retain_graph=True, allow_unused=True)
    for source, gradient in zip(sources, made, strict=True):
        if gradient is None:
            continue
        fault = _fault_of_layout(gradient, source)
        if fault is not None:
            return fault
        dense: Any = gradient.detach()
        if dense._spec.layout is not strided:
            dense = dense.to_dense()
        largest = dense.abs().max().item() if dense._spec.numel else 0.0
        if not largest <= (ATOL if is_masked else 0.0):
            return "backward not multiplied by grad_output"
        if dense._spec.device is not source._spec.device:
            return "grad is incorrect device"
    return None


def _fault_of_layout(gradient: Any, source: Any) -> str | None:
    layout, expected = gradient._spec.layout, source._spec.layout
    if layout is strided:
        return None
    if layout is not expected:
        return f"grad is incorrect layout ({layout} is not {expected})"
    kind = "sparse" if layout is sparse_coo else repr(layout).rpartition(".")[2]
    for noun in ("sparse_dim", "dense_dim"):
        count, right = getattr(gradient, noun)(), getattr(source, noun)()
        if count != right:
            return f"grad is {kind} tensor, but has incorrect {noun} {count}, expected {right}"
    return None
