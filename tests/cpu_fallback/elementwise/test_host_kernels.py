"""CPU kernels of pointwise composites compute the composite's values, and modes still see the composite's
operator.
"""

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.elementwise.host_kernels import HOST_KERNELS
from triten.dispatch.structured.stub import is_registered

VALUES = [0.0, -0.0, 0.75, -1.25, 3.0, -40.0, float("inf"), -float("inf"), float("nan")]


def made(*sizes, dtype=tt.float32):
    count = int(np.prod(sizes))
    return tt.tensor((VALUES * (count // len(VALUES) + 1))[:count], dtype=dtype).reshape(sizes)


CASES = {
    "angle": (tt.angle, (7, 9), 0),
    "complex": (lambda x: tt.complex(x, x.flip(0).contiguous()), (7, 9), 0),
    "elu_backward": (
        lambda x: tt.ops.aten.elu_backward(x.flip(0), 1.5, 1.25, 0.5, False, x),
        (7, 9),
        1,
    ),
    "mvlgamma": (lambda x: tt.mvlgamma(x.abs() + 2, 3), (7, 9), 4),
    "polar": (lambda x: tt.polar(x.abs(), x.flip(0).contiguous()), (7, 9), 0),
    "prelu": (lambda x: tt.nn.functional.prelu(x, tt.tensor(0.25, dtype=x.dtype)), (7, 9), 0),
    "special_ndtr": (tt.special.ndtr, (7, 9), 4),
    "square": (tt.square, (7, 9), 0),
}


def test_every_kernel_has_a_case():
    assert set(CASES) == set(HOST_KERNELS)
    assert all(is_registered(f"{name}_host_stub", "cpu") for name in HOST_KERNELS)


@pytest.mark.parametrize("dtype", [tt.float32, tt.float64])
@pytest.mark.parametrize("name", sorted(CASES))
def test_the_kernel_computes_what_the_composition_does(name, dtype):
    function, sizes, units = CASES[name]
    x = made(*sizes, dtype=dtype)
    found = function(x).numpy()
    composed = function(x.clone().requires_grad_()).detach().numpy()
    assert found.dtype == composed.dtype and found.shape == composed.shape
    if units:
        np.testing.assert_allclose(
            found, composed, rtol=units * np.finfo(found.dtype).eps, atol=1e-6 * (dtype is tt.float32)
        )
    else:
        np.testing.assert_array_equal(found, composed)


def test_a_mode_sees_the_operator():
    seen = []

    class Watch(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    x = tt.tensor([1.0, -1.0])
    tt.angle(x)
    with Watch():
        tt.angle(x)
    assert seen == ["aten.angle.default"]


def test_new_shapes_after_old_ones():
    for sizes in ((3,), (2, 5), (), (40, 300)):
        x = made(*sizes)
        np.testing.assert_array_equal(tt.square(x).numpy(), np.square(x.numpy()))
        assert tt.complex(x, tt.tensor(2.0)).numpy().shape == sizes
