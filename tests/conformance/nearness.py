"""Results that differ from PyTorch's within rounding: which of the two is nearer to the float64 result."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from .conversion import array_of, array_of_ours, flat
from .outcome import outcome

WIDER = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex32: torch.complex128,
    torch.complex64: torch.complex128,
}

# Two errors that come from rounding alone count as equal within this factor.
SLACK = 1.02


def widened(value: Any) -> Any:
    """Convert every floating or complex tensor to the widest dtype."""
    if isinstance(value, torch.Tensor):
        return value.to(WIDER.get(value.dtype, value.dtype))
    if isinstance(value, torch.dtype):
        return WIDER.get(value, value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(widened, value))
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        return type(value)(map(widened, value))
    if isinstance(value, dict):
        return {key: widened(item) for key, item in value.items()}
    return value


def as_near(call: Callable[[], Any], theirs: Any, ours: Any) -> bool:
    """Return True if triten's result is as near to the result of `call`, in the widest dtype, as PyTorch's.

    Either no element is further away, or neither the largest error nor the mean error is larger. A distance
    of one unit in the last place is always near enough. Results of other dtypes must equal PyTorch's.
    """
    wide = outcome(call)
    if wide.raised is not None:
        return False
    exact, expected, given = flat(wide.value), flat(theirs), flat(ours)
    if not len(exact) == len(expected) == len(given):
        return False
    return all(map(_near, exact, expected, given))


def _near(exact: Any, theirs: Any, ours: Any) -> bool:
    if not isinstance(theirs, torch.Tensor) or exact.shape != theirs.shape:
        return False
    if theirs.dtype not in WIDER:
        return np.array_equal(array_of(theirs), array_of_ours(ours))
    wide: Any = np.complex128 if theirs.is_complex() else np.float64
    # Round to the result's dtype first: a value that overflows there is infinite in either library.
    rounded = array_of(exact.to(theirs.dtype)).astype(wide)
    sought, before, mine = (
        array_of(exact).astype(wide),
        array_of(theirs).astype(wide),
        array_of_ours(ours).astype(wide),
    )
    with np.errstate(all="ignore"):
        same = (mine == rounded) | (np.isnan(mine) & np.isnan(rounded)) | (mine == before)
        slack = torch.finfo(theirs.dtype).eps * np.abs(sought)
        theirs_off = np.where(before == rounded, 0, np.abs(before - sought))
        nearer = np.abs(mine - sought) <= np.fmax(theirs_off, slack)
    good = same | nearer
    finite = np.isfinite(mine) & np.isfinite(before) & np.isfinite(sought)
    if good.all() or not (good | finite).all():
        return bool(good.all())
    own, their = np.abs(mine - sought)[finite], np.abs(before - sought)[finite]
    return bool(own.max() <= SLACK * their.max() and own.mean() <= SLACK * their.mean())
