"""Closeness of tensors and arrays."""

from collections.abc import Sequence
from typing import Any

import numpy as np

import triten as tt


def as_array(x: Any) -> np.ndarray:
    """Return the elements on the host; 16-bit and 8-bit floats become float32."""
    if not isinstance(x, tt.Tensor):
        return np.asarray(x)
    x = x.detach().cpu()
    if x.is_floating_point() and x.dtype not in (tt.float32, tt.float64):
        x = x.float()
    return x.contiguous().numpy()


def close(found: Any, expected: Any, rtol: float = 1e-7, atol: float = 0.0, note: str = "") -> None:
    """Raise AssertionError unless `found` and `expected` have one shape and are near; sequences element by element.

    Args:
        found, expected: tensors of any device, arrays, numbers, or sequences of them.
        rtol, atol: how far apart, relatively and absolutely.
        note: what they are, for the message.
    """
    if isinstance(expected, Sequence) and any(isinstance(each, tt.Tensor | np.ndarray) for each in expected):
        assert len(found) == len(expected), note
        for number, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
            close(mine, theirs, rtol, atol, f"{note} [{number}]".strip())
        return
    mine, theirs = as_array(found), as_array(expected)
    assert mine.shape == theirs.shape, f"{note}: {mine.shape} and {theirs.shape}"
    np.testing.assert_allclose(mine, theirs, rtol, atol, err_msg=note)
