"""Errors that autograd raises: stale saved arguments, and invalid hooks and grads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt


@pytest.mark.parametrize(
    "write",
    [
        lambda v: v.mul_(v),
        lambda v: v.div_(v),
        lambda v: v.pow_(v),
        lambda v: v.addcmul_(v, v),
        lambda v: v.addcdiv_(v, v),
        lambda v: v.atan2_(v),
        lambda v: v[:1].mul_(v[:1]),
    ],
)
def test_a_saved_argument_that_is_written_by_its_own_operator_is_stale(write: Callable[[Any], Any]) -> None:
    x = tt.tensor([1.5, 2.5], requires_grad=True)
    v = x * 1.0
    write(v)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        v.sum().backward()
    assert x.grad is None


@pytest.mark.parametrize(
    ("hook", "error", "words"),
    [
        (lambda g: 1, TypeError, "hook returned 'int'"),
        (lambda g: g[:2], RuntimeError, "changed the size"),
        (lambda g: g.double(), RuntimeError, "changed the type"),
    ],
)
def test_a_hook_returns_a_gradient_of_the_same_kind(hook: Any, error: type[Exception], words: str) -> None:
    x = tt.ones(3, requires_grad=True)
    x.register_hook(hook)
    with pytest.raises(error, match=words):
        x.sum().backward()


WRONG_WRITES: dict[str, Callable[[Any], Any]] = {
    "shape": lambda x: x.add_(tt.ones(5)),
    "copy": lambda x: x.copy_(tt.ones(5)),
    "mask": lambda x: x.masked_fill_(tt.ones(3, 2), 1.0),
    "dim": lambda x: x.cumsum_(9),
    "dim of an index": lambda x: x.index_add_(7, tt.tensor([0]), tt.ones(1, 2)),
    "dim of a composite": lambda x: x.index_fill_(7, tt.tensor([0]), 1.0),
    "dtype": lambda x: x.bitwise_and_(1),
    "arguments": lambda x: x.clamp_(),
    "range": lambda x: x.uniform_(3, 1),
    "product": lambda x: x.addmm_(tt.ones(4, 4), tt.ones(3, 3)),
}


@pytest.mark.parametrize("name", WRONG_WRITES)
def test_a_leaf_is_refused_before_what_else_is_wrong(name: str) -> None:
    leaf = tt.ones(3, 2, requires_grad=True)
    for words, target in (("a leaf", leaf), ("a view of a leaf", leaf[:])):
        with pytest.raises(RuntimeError, match=f"^{words} Variable that requires grad is being used"):
            WRONG_WRITES[name](target)
    with (
        tt.no_grad(),
        pytest.raises(Exception, match=r"(?i)size|broadcast|mask|range|implemented|max|from|mul"),
    ):
        WRONG_WRITES[name](leaf)
    assert leaf._version == 0


def test_an_output_is_refused_gradients_before_what_else_is_wrong() -> None:
    x = tt.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"functions with out=\.\.\. arguments don't support automatic"):
        tt.add(x, tt.ones(5), out=tt.empty(3))
    with tt.no_grad(), pytest.raises(RuntimeError, match="must match"):
        tt.add(x, tt.ones(5), out=tt.empty(3))


def test_grad_is_another_tensor_or_none() -> None:
    x = tt.ones(3, requires_grad=True)
    with pytest.raises(TypeError, match="expected to be a Tensor or None"):
        x.grad = 1
    with pytest.raises(RuntimeError, match="its own grad"):
        x.grad = x
    assert x.grad is None


def test_requires_grad_takes_a_bool() -> None:
    x = tt.ones(2)
    with pytest.raises(RuntimeError, match="must be a bool"):
        x.requires_grad = 1
    assert not x.requires_grad


aten = tt.ops.aten


def _ones(*sizes: int, device: str) -> tt.Tensor:
    return tt.ones(sizes, device=device, requires_grad=True)


@pytest.mark.parametrize(
    ("operator", "argument", "call"),
    [
        (
            "nll_loss_forward",
            "weight",
            lambda d: tt.nn.functional.nll_loss(
                tt.ones(2, 3, device=d), tt.tensor([0, 1], device=d), weight=_ones(3, device=d)
            ),
        ),
        (
            "_native_batch_norm_legit_no_training",
            "running_var",
            lambda d: tt.nn.functional.batch_norm(
                _ones(2, 3, device=d), tt.ones(3, device=d), _ones(3, device=d)
            ),
        ),
        (
            "_native_batch_norm_legit",
            "running_mean",
            lambda d: tt.nn.functional.batch_norm(
                _ones(2, 3, device=d), _ones(3, device=d), tt.ones(3, device=d), training=True
            ),
        ),
        (
            "fractional_max_pool2d",
            "random_samples",
            lambda d: tt.nn.functional.fractional_max_pool2d(
                tt.ones(1, 1, 4, 4, device=d), 2, output_size=2, _random_samples=_ones(1, 1, 2, device=d)
            ),
        ),
        (
            "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
            "scale",
            lambda d: tt.fake_quantize_per_tensor_affine(
                tt.ones(3, device=d), _ones(device=d), tt.zeros((), dtype=tt.int32, device=d), 0, 255
            ),
        ),
        (
            "linalg_pinv",
            "atol",
            lambda d: tt.linalg.pinv(tt.eye(2, device=d), atol=_ones(device=d), rtol=tt.zeros(1, device=d)),
        ),
    ],
)
def test_an_argument_without_a_formula_must_not_require_grad(
    operator: str, argument: str, call: Callable[[str], tt.Tensor], device: str
) -> None:
    words = (
        f"The function '{operator}' is not differentiable with respect to argument '{argument}'. This input cannot "
        "have requires_grad True."
    )
    with pytest.raises(RuntimeError) as caught:
        call(device)
    assert str(caught.value) == words
    with tt.no_grad():
        assert not call(device).requires_grad
    with pytest.raises(RuntimeError, match="is not differentiable with respect to"):
        call(device)  # from the plan


@pytest.mark.parametrize(
    ("words", "call"),
    [
        ("_unique2", lambda x: tt.unique(x)),
        ("unique_dim", lambda x: tt.unique(x, dim=0, return_counts=True)[0]),
        ("unique_consecutive", lambda x: tt.unique_consecutive(x)),
        ("unique_consecutive", lambda x: tt.unique_consecutive(x, dim=0)),
        ("geqrf", lambda x: tt.geqrf(x)[0]),
        ("igamma: input", lambda x: tt.igamma(x, tt.ones_like(x.detach()))),
        (
            "native_layer_norm_backward mean",
            lambda x: aten.native_layer_norm_backward(
                tt.ones(2, 2), tt.ones(2, 2), [2], x[:, :1], tt.ones(2, 1), None, None, [True, False, False]
            )[0],
        ),
    ],
)
def test_an_operator_without_a_derivative_raises_in_backward(
    words: str, call: Callable[[tt.Tensor], tt.Tensor]
) -> None:
    x = tt.tensor([[1.0, 2.0], [4.0, 3.0]], requires_grad=True)
    made = call(x)
    assert made.requires_grad
    with pytest.raises(NotImplementedError) as caught:
        made.sum().backward()
    assert str(caught.value) == f"the derivative for '{words}' is not implemented."
    assert x.grad is None


def test_an_operator_that_autograd_does_not_know_names_itself_without_its_overload() -> None:
    x = tt.ones(3, requires_grad=True)
    made = tt.histogram(x, 2)[0]
    assert made.grad_fn is not None
    assert made.grad_fn.name() == "NotImplemented"
    with pytest.raises(RuntimeError, match=r"^derivative for aten::histogram is not implemented$"):
        made.sum().backward()


def test_functions_that_are_no_derivative_s_business_pass_silently() -> None:
    x = tt.ones(3, requires_grad=True)
    for made in (tt.special.bessel_j0(x), tt.special.hermite_polynomial_h(x, 2), tt.special.airy_ai(x)):
        assert not made.requires_grad
    assert not tt._standard_gamma_grad(tt.ones(3), x).requires_grad  # by its first argument alone
