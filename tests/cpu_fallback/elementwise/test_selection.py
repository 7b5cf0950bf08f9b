"""Selection by a mask agrees with `np.where` for every dtype and stride."""

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.elementwise import pointwise
from triten.cpu_fallback.elementwise.selection import SMALL, selected
from triten.dispatch.core.dispatcher import Dispatcher


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16", "int8", "bool", "complex64", "complex128"])
@pytest.mark.parametrize("n", [SMALL - 1, SMALL, SMALL + 1])
def test_what_is_selected(dtype: str, n: int) -> None:
    rng = np.random.default_rng(4)
    condition = rng.random(n) > 0.5
    a, b = ((rng.standard_normal(n) * 50).astype(dtype) for _ in range(2))
    np.testing.assert_array_equal(selected(condition, a, b), np.where(condition, a, b))
    np.testing.assert_array_equal(
        selected(condition[::-1], a[::-1], b[0]), np.where(condition[::-1], a[::-1], b[0])
    )
    columns = selected(condition[:, None], a[:, None], b[None, :2])
    np.testing.assert_array_equal(columns, np.where(condition[:, None], a[:, None], b[None, :2]))


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (64, 64), (70, 70)])
def test_where_between_tensors_of_one_shape_takes_each_element_as_it_is(shape):
    rng = np.random.default_rng(11)
    condition = rng.random(shape) > 0.5
    a, b = (rng.standard_normal(shape).astype(np.float32) for _ in range(2))
    for array, special in ((a, np.nan), (b, -np.inf)):
        array = np.asarray(array).reshape(-1)
        array[::3], array[1::3] = special, -0.0
    a, b = a.reshape(shape), b.reshape(shape)
    tensors = [tt.from_numpy(np.array(each)) for each in (condition, a, b)]
    expected = np.where(condition, a, b)
    for given in (
        tt.where(*tensors),
        tt.where(*tensors, out=tt.empty(shape)),
        tensors[1].where(*tensors[::2]),
    ):
        found = given.numpy()
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("shape", [(1,), (3, 5), (64, 64), (70, 70)])
def test_the_gradient_of_relu_is_nan_s_and_infinity_s_own(shape):
    rng = np.random.default_rng(12)
    x = rng.standard_normal(shape)
    x.reshape(-1)[::4] = np.nan
    x.reshape(-1)[1::4] = 0.0
    grad = rng.standard_normal(shape)
    grad.reshape(-1)[::3] = np.inf
    leaf = tt.from_numpy(x.copy()).requires_grad_()
    leaf.relu().backward(tt.from_numpy(grad.copy()))
    np.testing.assert_array_equal(leaf.grad.numpy(), np.where(x <= 0, 0, grad))


def test_a_plan_for_few_elements_does_not_serve_many(monkeypatch):
    sizes = []

    def counted(mask, a, b):
        sizes.append(mask.size)
        return selected(mask, a, b)

    monkeypatch.setattr(pointwise, "selected", counted)
    Dispatcher.singleton().forget_all()
    try:
        for n in (SMALL, 2 * SMALL):
            x = tt.arange(n) - n / 2
            assert tt.equal(tt.where(x > 0, x, 0.0), x.clamp(min=0.0))
    finally:
        Dispatcher.singleton().forget_all()
    assert sizes == [2 * SMALL]
