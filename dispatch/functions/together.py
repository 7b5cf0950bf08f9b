"""Eligibility of tensor lists for one multi-tensor operator with a single launch, instead of an operator each.

Tensors on one device qualify, a CUDA device unless the caller says otherwise, but not if
gradients are recorded or a subclass, a mode, `vmap` or a trace must see the individual operators.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ...runtime.dispatch_key import BACKEND_MASK, Functionality, functionality_bit
from ...runtime.grad_mode import is_grad_enabled
from ...runtime.layout import strided
from ...runtime.local_dispatch_key_set import effective
from ...runtime.tensor_spec import TensorSpec

UNMINDFUL = BACKEND_MASK | sum(
    functionality_bit(each)
    for each in (
        Functionality.Dense,
        Functionality.ADInplaceOrView,
        Functionality.AutogradFunctionality,
        Functionality.AutocastFunctionality,
        Functionality.BackendSelect,
        Functionality.Profiler,
    )
)
"""Keys under which the choice of operators makes no difference."""

LISTS = 512
"""Number of lists whose result is cached."""


def go_together(*lists: Sequence[Any], on: str = "cuda") -> bool:
    """Return whether one operator computes all of these lists' tensors.

    Args:
        lists: Lists of tensors.
        on: Device type that has the operator. Default: "cuda".

    Example:
        >>> import triten as tt
        >>> from triten.dispatch.functions.together import go_together
        >>> go_together([tt.ones(2), tt.ones(3)]), go_together([tt.ones(2), tt.ones(3)], on="cpu")
        (False, True)
    """
    if lists[0][0]._spec.device.type != on:
        return False
    device = lists[0][0]._spec.device
    for tensors in lists:
        keys = _keys_of(tuple([tensor._spec for tensor in tensors]))
        if keys is None or keys[0] is not device or (keys[2] and is_grad_enabled()):
            return False
        if effective(keys[1]) & ~UNMINDFUL:
            return False
    return True


@functools.lru_cache(maxsize=LISTS)
def _keys_of(specs: tuple[TensorSpec, ...]) -> tuple[Any, int, bool] | None:
    """Return the device of plain tensors, their combined call keys and whether one requires grad; None for others."""
    keys, device = 0, specs[0].device
    for spec in specs:
        if spec.device is not device or spec.layout is not strided or spec.keys or spec.dtype.is_complex:
            return None
        keys |= spec.call_keys
    return device, keys, any(spec.requires_grad for spec in specs)
