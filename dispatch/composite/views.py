"""Shapes by views where a view can be, else by a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...runtime.memory_format import contiguous_format
from ..structured.native.views import infer_size, view_strides


def reshape(self: Any, shape: Sequence[int]) -> Any:
    """`torch.reshape`."""
    spec = self._spec
    sizes = infer_size(shape, spec.numel)
    if view_strides(spec.sizes, spec.strides, sizes) is not None:
        return self.view(sizes)
    return self.clone(memory_format=contiguous_format).view(sizes)
