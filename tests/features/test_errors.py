"""Errors: a caller's mistakes and the library's own, and what a failing call leaves behind."""

import pytest

import triten as tt
from triten.runtime.local_dispatch_key_set import local, modes


def test_check_and_internal_assert_are_told_apart() -> None:
    with pytest.raises(RuntimeError, match="two sizes"):
        tt._check(False, lambda: "two sizes")
    with pytest.raises(ValueError, match="positive"):
        tt._check_value(False, lambda: "must be positive")
    with pytest.raises(tt.library.InternalAssertError, match="bug in triten"):
        tt.library.internal_assert(False, "cannot happen")
    tt.library.check(True, "fine")


def test_a_kernel_that_raises_leaves_everything_as_it_was() -> None:
    def fails(x: tt.Tensor, y: tt.Tensor) -> tt.Tensor:
        raise ArithmeticError("half-way")

    x, y = tt.ones(2), tt.ones(2)
    with tt.library.Library("t_errors", "DEF") as lib:
        lib.define("f_(Tensor(a!) x, Tensor y) -> Tensor(a!)")
        lib.impl("f_", fails, "CPU")
        version = x.version_cell()[0]
        with tt.no_grad(), pytest.raises(ArithmeticError, match="half-way"):
            tt.ops.t_errors.f_(x, y)
    assert x.tolist() == y.tolist() == [1.0, 1.0]
    assert x.version_cell()[0] == version
    assert (local.included, local.excluded, list(modes)) == (0, 0, [])
    assert tt.is_grad_enabled()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tt.ones(2) + tt.ones(3), RuntimeError, r"size of tensor a \(2\) must match .* b \(3\)"),
        (lambda: tt.ones(2, 3) @ tt.ones(2, 3), RuntimeError, "shapes cannot be multiplied"),
        (lambda: tt.ones(6).view(4), RuntimeError, "invalid for input of size 6"),
        (lambda: tt.ones(2)[5], IndexError, "out of bounds"),
        (lambda: tt.ones(2, requires_grad=True).add_(1), RuntimeError, "leaf Variable"),
        (lambda: tt.ones(2).sum(3), IndexError, "Dimension out of range"),
        (lambda: tt.zeros(2, device="gpu"), RuntimeError, "device"),
        (lambda: tt.zeros(2, dtype="float32"), TypeError, "dtype"),
    ],
)
def test_refusals_name_what_is_wrong(call: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()  # type: ignore[operator]
