"""Writes to views that show a base's elements as their parts, or pairs of them as complex numbers."""

import numpy as np
import pytest

import triten as tt


def gradient(start, write, through):
    """Return the gradient of the sum of squares after a write to a view of a computed base, and the base."""
    x = tt.from_numpy(start).requires_grad_()
    y = x * 1
    write(through(y))
    (found,) = tt.autograd.grad((y.abs() ** 2).sum(), x)
    return found.numpy(), y.detach().numpy()


COMPLEX = np.array([[1 + 2j, 3 - 1j], [0.5 + 1j, -2 + 0.25j]])
PARTS = {
    "view_as_real": (lambda y: tt.view_as_real(y), 2.0, 2.0),
    "real": (lambda y: y.real, 2.0, 1.0),
    "imag": (lambda y: y.imag, 1.0, 2.0),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("layout", ["whole", "transposed", "part"])
def test_parts_of_a_complex_base(name, layout):
    through, real, imag = PARTS[name]
    lay = {"whole": lambda y: y, "transposed": lambda y: y.t(), "part": lambda y: y[1:, :1]}[layout]
    found, written = gradient(COMPLEX.copy(), lambda view: view.mul_(2.0), lambda y: through(lay(y)))
    inside = np.zeros((2, 2), bool)
    inside[(slice(1, None), slice(None, 1)) if layout == "part" else ...] = True
    by_real, by_imag = np.where(inside, real, 1.0), np.where(inside, imag, 1.0)
    np.testing.assert_array_equal(written, COMPLEX.real * by_real + 1j * COMPLEX.imag * by_imag)
    expected = 2 * (COMPLEX.real * by_real**2 + 1j * COMPLEX.imag * by_imag**2)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_pairs_of_a_real_base():
    start = np.arange(8.0).reshape(4, 2)
    found, written = gradient(start.copy(), lambda view: view.mul_(2j), tt.view_as_complex)
    np.testing.assert_array_equal(written, np.stack([-2 * start[:, 1], 2 * start[:, 0]], 1))
    np.testing.assert_array_equal(found, 8 * start)
    found, written = gradient(start.copy(), lambda view: view.zero_(), lambda y: tt.view_as_complex(y)[1::2])
    np.testing.assert_array_equal(found[1::2], 0)
    np.testing.assert_array_equal(found[::2], 2 * start[::2])


def test_a_write_brings_the_gradient_of_what_is_written():
    weight = tt.ones(2, 2, 2, dtype=tt.float64, requires_grad=True)
    y = tt.zeros(2, 2, dtype=tt.complex128)
    tt.view_as_real(y).copy_(weight * 3)
    assert y.requires_grad and y.tolist() == [[3 + 3j] * 2] * 2
    assert tt.autograd.grad((y.abs() ** 2).sum(), weight)[0].tolist() == [[[18.0] * 2] * 2] * 2


def test_a_view_follows_a_write_to_its_base():
    x = tt.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    y = x * 1
    view = tt.view_as_real(y)
    y.mul_(1j)
    (found,) = tt.autograd.grad((view * tt.tensor([1.0, 10.0])).sum(), x)
    assert found.tolist() == [10 - 1j, 10 - 1j]


def test_second_derivatives_go_through():
    x = tt.from_numpy(np.stack([COMPLEX.real, COMPLEX.imag], -1)).requires_grad_()

    def program(x):
        y = tt.view_as_complex(x * x)
        y.real.mul_(x[..., 1])
        return tt.view_as_real(y * y)

    assert tt.autograd.gradcheck(program, (x,)) and tt.autograd.gradgradcheck(program, (x,))
