"""Slices with a negative step: NumPy's elements, as a copy; assignments reach the tensor."""

import numpy as np
import pytest

import triten as tt

INDICES = [
    np.s_[::-1],
    np.s_[::-2],
    np.s_[5:0:-2],
    np.s_[-9:-9:-1],
    np.s_[1:9:-1],
    np.s_[..., ::-1],
    np.s_[::-1, ::-1],
    np.s_[1, ::-1],
    np.s_[None, ::-1, 1:3],
    np.s_[::2, None, ..., 3:0:-1],
    np.s_[[0, 2], ::-2],
    np.s_[::-1, [[0, 3], [1, 1]]],
    (np.array([True, False, True]), slice(None, None, -1)),
]


def translated(index):
    """Convert an index's NumPy arrays to tensors."""
    if isinstance(index, tuple):
        return tuple(map(translated, index))
    return tt.tensor(index.tolist()) if isinstance(index, np.ndarray) else index


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_elements_are_numpys(index, device: str) -> None:
    array = np.arange(12.0).reshape(3, 4)
    x = tt.tensor(array.tolist(), dtype=tt.float64, device=device)
    picked = x[translated(index)]
    expected = array[index]
    assert picked.shape == expected.shape and picked.tolist() == expected.tolist()
    for value in (7.0, np.arange(expected.size, dtype=float).reshape(expected.shape)):
        written, own = array.copy(), x.clone()
        written[index] = value
        if not isinstance(value, float):
            value = tt.tensor(value.tolist(), dtype=x.dtype, device=device).reshape(value.shape)
        own[translated(index)] = value
        assert own.tolist() == written.tolist()


def test_it_is_a_copy() -> None:
    x = tt.arange(3)
    y = x[::-1]
    y[0] = 9
    assert x.tolist() == [0, 1, 2]


def test_a_value_that_broadcasts() -> None:
    x = tt.zeros(2, 3)
    x[:, ::-1] = tt.tensor([1.0, 2.0, 3.0])
    assert x.tolist() == [[3.0, 2.0, 1.0]] * 2


def test_without_elements() -> None:
    x = tt.zeros(0, 3)
    assert x[::-1].shape == x[::-1, [0, 1, 2]].shape == (0, 3)
    x[::-1, [0, 1, 2]] = 1.0
    x[::-1] = 1.0


def test_gradient() -> None:
    x = tt.ones(3, requires_grad=True)
    (x[::-1] * tt.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [3.0, 2.0, 1.0]


def test_compiled() -> None:
    compiled = tt.compile(lambda x: x[::-1] + 1)
    assert compiled(tt.arange(3)).tolist() == [3, 2, 1]


def test_meta() -> None:
    assert tt.ones(5, 2, device="meta")[::-2].shape == (3, 2)


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (np.s_[::-1, ::-1, ::-1], IndexError, "too many indices for tensor of dimension 2"),
        (np.s_[::-1, 4], IndexError, "index 4 is out of bounds for dimension 1 with size 4"),
        (np.s_[1.5::-1], TypeError, "slice indices must be integers"),
    ],
    ids=str,
)
def test_errors(index, error, message) -> None:
    x = tt.zeros(3, 4)
    with pytest.raises(error, match=message):
        x[index]
    with pytest.raises(error, match=message):
        x[index] = 1.0


def test_a_number_has_no_elements_to_reverse() -> None:
    with pytest.raises(IndexError):
        tt.tensor(1.0)[::-1]
