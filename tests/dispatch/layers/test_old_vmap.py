"""The `vmap` of the time before `torch.func` (`torch._vmap_internals`)."""

from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.dispatch.layers.old_vmap import _vmap, vmap

X = np.arange(6.0).reshape(2, 3)


def tensor(values: Any) -> Any:
    return tt.tensor(values, dtype=tt.float64)


def test_it_maps_and_warns() -> None:
    with pytest.warns(FutureWarning, match="Please use `torch.vmap` instead"):
        doubled = vmap(lambda x: (x * 2, x.sum(), tt.tensor(1.0)), in_dims=(1,), out_dims=(1, 0, 0))
    whole, sums, ones = doubled(tensor(X))
    np.testing.assert_array_equal(whole.numpy(), 2 * X)
    np.testing.assert_array_equal(sums.numpy(), [3.0, 5.0, 7.0])
    np.testing.assert_array_equal(ones.numpy(), [1.0, 1.0, 1.0])


def test_an_output_of_the_input_is_the_input() -> None:
    x = tensor(X)
    assert _vmap(lambda row: row)(x) is x


def test_outputs_may_be_none() -> None:
    squares, nothing = _vmap(lambda x: (x * x, None), out_dims=(1, 0), allow_none_pass_through=True)(
        tensor(X)
    )
    np.testing.assert_array_equal(squares.numpy(), (X * X).T)
    assert nothing is None
    assert _vmap(lambda x: None, allow_none_pass_through=True)(tensor(X)) is None


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        (lambda x: 3.0, {}, "got type <class 'float'> as the return"),
        (lambda x: [x, x], {}, "got type <class 'list'> as the return"),
        (lambda x: (x, None), {}, "got type <class 'NoneType'> for return 1"),
        (lambda x: (x, x), {"out_dims": (0,)}, r"must have one dim per output \(got 2 outputs\)"),
        (lambda x: x, {"out_dims": "0"}, "`out_dims` must be an int or a tuple of int"),
        (lambda x: x, {"in_dims": -1}, r"Got in_dim=-1 .* dimensionality 2 .* 0 <= in_dim < 2"),
        (lambda x: x, {"in_dims": [0]}, "expected `in_dims` to be int or a"),
        (lambda x: x, {"in_dims": 2}, "Got in_dim=2 for some input"),
    ],
)
def test_it_refuses(function: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _vmap(function, **options)(tensor(X))
