"""Errors: a caller's mistakes and the library's own, and what a failing call leaves behind."""

import importlib.util
import sys
from collections.abc import Callable

import pytest

import triten as tt
import triten.nn.functional as F
from triten.runtime.local_dispatch_key_set import local, modes

NEEDS_TRITON = pytest.mark.skipif(
    sys.platform != "linux" and importlib.util.find_spec("triton") is None,
    reason="triton has no wheel for this platform",
)


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


@pytest.mark.parametrize(
    ("call", "remedy"),
    [
        (
            lambda: tt.ones(4, 3) @ tt.ones(4, 3),
            "the K dimensions, 3 and 4, must be equal; mat2.mT would fit",
        ),
        (lambda: tt.nn.Linear(3, 4)(tt.ones(2, 5)), "the K dimensions, 5 and 3, must be equal"),
        (lambda: F.cross_entropy(tt.ones(2, 3), tt.zeros(2)), "Convert the target with target.long()."),
        (
            lambda: F.binary_cross_entropy(tt.ones(2), tt.tensor([0, 1])),
            "Convert the target with target.to(input.dtype).",
        ),
        pytest.param(
            lambda: tt.ones(2, 2) @ tt.ones(2, 2, device="cuda"), "x.to('cuda:0').", marks=NEEDS_TRITON
        ),
        pytest.param(lambda: tt.ones(2, device="cuda") + tt.ones(2), "x.to('cuda:0').", marks=NEEDS_TRITON),
        pytest.param(
            lambda: tt.equal(tt.ones(2), tt.ones(2, device="cuda")), "x.to('cuda:0').", marks=NEEDS_TRITON
        ),
        (
            lambda: tt.ones(2, 2) @ tt.ones(2, 2, device="meta"),
            "cpu and meta! (when checking arguments of mm)",
        ),
    ],
)
def test_common_mistakes_end_with_the_remedy(call: Callable[[], object], remedy: str) -> None:
    with pytest.raises(RuntimeError) as raised:
        call()
    assert str(raised.value).endswith(remedy)
