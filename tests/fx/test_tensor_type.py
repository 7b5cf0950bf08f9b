"""Types of tensors by their sizes."""

import pytest

from triten.fx.tensor_type import Dyn, TensorType, is_consistent, is_more_precise

A, B = TensorType((1, 2)), TensorType((1, Dyn))


@pytest.mark.parametrize(
    ("t1", "t2", "consistent", "precise"),
    [
        (A, B, True, True),
        (B, A, True, False),
        (A, Dyn, True, True),
        (Dyn, A, True, False),
        (int, int, True, True),
        (int, float, False, False),
        (A, int, False, False),
        (A, TensorType((1,)), False, False),
        (TensorType((2, 1)), A, False, False),
        (Dyn, Dyn, True, True),
    ],
)
def test_relations_of_types(t1, t2, consistent, precise):
    assert is_consistent(t1, t2) is consistent and is_more_precise(t1, t2) is precise


def test_types_are_values():
    assert TensorType[1, Dyn] == B and hash(TensorType[1, Dyn]) == hash(B) and A != B and A != (1, 2)
    assert repr(B) == "TensorType[(1, Dyn)]" and TensorType[3].dims == (3,)
