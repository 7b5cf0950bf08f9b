"""Complex logcumsumexp on CUDA agrees with the host: edge sizes, every dimension, any layout."""

import numpy as np
import pytest

import triten as tt

INF, NAN = float("inf"), float("nan")


def numbers(random, shape, dtype):
    real, imaginary = (random(shape, dtype.to_real()) for _ in range(2))
    return tt.complex(real, imaginary)


@pytest.mark.parametrize("dtype", [tt.complex64, tt.complex128], ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 17, 64, 65])
def test_lengths_and_dimensions(random, same, n, dtype):
    for shape, dim in (((n,), 0), ((3, n), 1), ((n, 2), 0), ((2, n, 3), 1)):
        a = numbers(random, shape, dtype)
        same(a.to("cuda").logcumsumexp(dim), a.logcumsumexp(dim), 2e-6 if dtype is tt.complex64 else 1e-13)


def test_no_elements_and_no_dimensions(random, same):
    for shape in ((), (0, 3), (3, 0)):
        a = numbers(random, shape, tt.complex64)
        same(a.to("cuda").logcumsumexp(0), a.logcumsumexp(0))


def test_layouts_and_outputs(random, same):
    a = numbers(random, (12, 10), tt.complex64)
    x = a.to("cuda")
    for view in (lambda z: z.t(), lambda z: z[1::2, 3:], lambda z: z[:, :1].expand(12, 7), lambda z: z[3]):
        same(view(x).logcumsumexp(0), view(a).logcumsumexp(0), 2e-6)
    out, there = tt.zeros(10, 12, dtype=tt.complex64, device="cuda").t(), tt.zeros(12, 10, dtype=tt.complex64)
    same(tt.logcumsumexp(x, 1, out=out), tt.logcumsumexp(a, 1, out=there), 2e-6)


def test_angles_are_those_of_steps_one_after_another(same):
    """Compare angles beyond half a turn, which rotating partial sums have, as in PyTorch."""
    a = tt.tensor([0 + 3j, 0 + 3j, 4 + 6j, -1 - 9j, 2 + 20j])
    got, expected = a.to("cuda").logcumsumexp(0).cpu().numpy(), a.logcumsumexp(0).numpy()
    np.testing.assert_allclose(np.exp(got), np.exp(expected), rtol=1e-5)
    np.testing.assert_allclose(got.real, expected.real, rtol=1e-5)


def test_infinities_and_nan(same):
    for values in (
        [complex(-INF, 0), 1 + 1j, complex(-INF, 0), 2j],
        [complex(-INF, 0), complex(-INF, 0), complex(-INF, 0)],
        [1 + 1j, complex(NAN, 0), 2 + 0j, 3 + 0j],
        [1 + 1j, complex(INF, 0), 2 + 0j],
    ):
        a = tt.tensor(values)
        got, expected = a.to("cuda").logcumsumexp(0).cpu().numpy(), a.logcumsumexp(0).numpy()
        np.testing.assert_allclose(got.real, expected.real, rtol=1e-6, err_msg=str(values))


def test_it_is_differentiable(random, same):
    a = numbers(random, (7, 5), tt.complex128)
    gradients = []
    for x in (a.clone(), a.to("cuda")):
        x.requires_grad_()
        tt.view_as_real(x.logcumsumexp(0)).sum().backward()
        gradients.append(x.grad)
    same(gradients[1], gradients[0], 1e-10)
