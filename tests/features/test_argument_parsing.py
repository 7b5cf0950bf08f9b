"""Argument parsing over several signatures: overloads, deprecated ones, variadic sizes, coercion, foreign operands."""

from typing import Any

import numpy as np
import pytest

import triten as tt


def test_overloads_are_chosen_by_arguments() -> None:
    x = tt.tensor([[1.0, 5.0], [7.0, 3.0]])
    assert x.max().item() == 7.0
    values, indices = x.max(1)
    assert (values.tolist(), indices.tolist()) == ([5.0, 7.0], [1, 0])
    assert x.max(tt.tensor(4.0)).tolist() == [[4.0, 5.0], [7.0, 4.0]]
    assert tt.pow(2, tt.tensor([3.0])).tolist() == [8.0]


def test_deprecated_signatures_are_taken_with_a_warning() -> None:
    x = tt.ones(2)
    before = tt.is_warn_always_enabled()
    tt.set_warn_always(True)  # a process is told once of each signature
    try:
        with pytest.warns(UserWarning, match="deprecated"):
            assert tt.add(x, 3, x).tolist() == [4.0, 4.0]
    finally:
        tt.set_warn_always(before)


def test_sizes_may_be_variadic_or_a_sequence() -> None:
    for shape in ((2, 3), [2, 3], tt.Size([2, 3]), (np.int64(2), 3)):
        assert tt.zeros(*shape).shape == tt.zeros(shape).shape == (2, 3)
    assert tt.ones(6).view(2, 3).shape == tt.ones(6).view((2, 3)).shape == (2, 3)
    assert tt.ones(2, 3).permute(1, 0).shape == (3, 2)


def test_numbers_and_arrays_are_coerced() -> None:
    x = tt.ones(2)
    assert (x + np.float32(1)).tolist() == (2 + x - 1).tolist() == [2.0, 2.0]
    assert (x + True).dtype == tt.float32
    assert (tt.ones(2, dtype=tt.int64) * 2.5).dtype == tt.float32


def test_a_call_that_fits_no_signature_lists_them() -> None:
    with pytest.raises(TypeError, match=r"(?s)received an invalid combination of arguments.*\* \(Tensor"):
        tt.max(tt.ones(2), "x", 3)
    with pytest.raises(TypeError, match=r"'Tensor'|must be Tensor"):
        tt.mm(tt.ones(2, 2), 3)


class Foreign:
    def __radd__(self, other: Any) -> str:
        return "radd"

    def __rmatmul__(self, other: Any) -> str:
        return "rmatmul"


def test_foreign_operands_answer_for_themselves() -> None:
    assert tt.ones(2) + Foreign() == "radd"
    assert tt.ones(2) @ Foreign() == "rmatmul"
    with pytest.raises(TypeError, match="unsupported operand"):
        tt.ones(2) - Foreign()
