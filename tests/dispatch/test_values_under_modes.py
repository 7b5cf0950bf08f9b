"""A dispatch mode changes no value and no gradient, though it sees other operators than a call without a mode."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

import triten as tt
from triten.nn import functional as F


class Through(tt.TensorDispatchMode):
    """Mode that calls every operator."""

    def __tensor_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def ramp(*sizes: int) -> tt.Tensor:
    count = tt.Size(sizes).numel()
    return ((tt.arange(count, dtype=tt.float64) * 7 % 11 - 4) / 5).reshape(sizes)


def layer(cls: Any, *args: Any, **options: Any) -> Callable[[tt.Tensor], Any]:
    """Return a layer with fixed weights, applied to a tensor."""
    made = cls(*args, dtype=tt.float64, **options)
    with tt.no_grad():
        for number, weight in enumerate(made.parameters()):
            weight.copy_(ramp(*weight.shape) / (number + 2))
    return made


SPLITS: dict[str, Callable[[tt.Tensor], Any]] = {
    "split": lambda x: x.split(2)[1] * 3,
    "split of sizes": lambda x: x.split([1, 0, 3])[2] * x.split([1, 3])[0],
    "chunk": lambda x: x.chunk(2, 1)[0] ** 2,
    "unbind": lambda x: x.unbind(1)[2] * 2,
    "unsafe_split": lambda x: x.unsafe_split(3)[0].mul_(2),
    "unsafe_chunk": lambda x: x.unsafe_chunk(4)[3].exp(),
    "masked_select": lambda x: x.masked_select(x > 0) ** 2,
    "masked_select that broadcasts": lambda x: x[0].masked_select(x > 0) ** 2,
}
CALLS: dict[str, tuple[tuple[int, ...], Callable[[tt.Tensor], Any]]] = {
    **{name: ((4, 6), call) for name, call in SPLITS.items()},
    "elu": ((4, 6), lambda x: F.elu(x, 0.5)),
    "celu": ((4, 6), lambda x: F.celu(x, 0.5)),
    "maximum": ((4, 6), lambda x: tt.maximum(x, x.flip(0)) + tt.minimum(x.detach(), x * 2)),
    "atan2": ((4, 6), lambda x: tt.atan2(x, x.flip(0) - 0.1)),
    "quotient": ((4, 6), lambda x: x / (x.flip(0) + 3)),
    "max": ((4, 6), lambda x: x.max() * x.min()),
    "logsumexp": ((4, 6), lambda x: x.logsumexp(1)),
    "isclose": ((4, 6), lambda x: x.isclose(x.round(), 0.1, 0.3) * x),
    "circular padding": ((1, 2, 4, 5), lambda x: F.pad(x, (2, -1, -1, 3), "circular") ** 2),
    "circular padding in front": ((1, 2, 4), lambda x: F.pad(x, (3, 0), "circular") ** 2),
    "weighted smoothing": (
        (4, 3),
        lambda x: F.cross_entropy(
            x, tt.tensor([0, 2, 1, 1]), x[0].detach() + 2, ignore_index=2, label_smoothing=0.3
        ),
    ),
    "conv2d": (
        (1, 2, 4, 5),
        lambda x: F.conv2d(x, x[:, :, :2, :3].detach()) + F.conv2d(x.detach(), x[:, :, :2, :3]),
    ),
    "conv_transpose1d": (
        (2, 3, 4),
        lambda x: F.conv_transpose1d(x, x[0, :, None, :2], stride=2, output_padding=1),
    ),
    "LSTM": ((3, 2, 4), lambda x: layer(tt.nn.LSTM, 4, 5, 2, bidirectional=True)(x)[0]),
    "LSTM with a projection": ((3, 2, 4), lambda x: layer(tt.nn.LSTM, 4, 5, proj_size=3)(x)[1][0]),
    "GRU": ((2, 3, 4), lambda x: layer(tt.nn.GRU, 4, 5, batch_first=True)(x)[0]),
    "RNN": ((3, 2, 4), lambda x: layer(tt.nn.RNN, 4, 5, nonlinearity="relu", bias=False)(x)[1]),
    "GRU of packed rows": (
        (3, 2, 4),
        lambda x: layer(tt.nn.GRU, 4, 5)(tt.nn.utils.rnn.pack_padded_sequence(x, [3, 1]))[0].data,
    ),
    "LSTMCell": ((3, 4), lambda x: layer(tt.nn.LSTMCell, 4, 5)(x)[1]),
    "GRUCell": ((3, 4), lambda x: layer(tt.nn.GRUCell, 4, 5)(x)),
    "attention": ((3, 2, 4), lambda x: layer(tt.nn.MultiheadAttention, 4, 2)(x, x, x)[0]),
    "attention of others": (
        (3, 2, 4),
        lambda x: layer(tt.nn.MultiheadAttention, 4, 2, batch_first=True)(x, y := x.flip(0), y)[0],
    ),
    "attention without a batch": (
        (3, 4),
        lambda x: layer(tt.nn.MultiheadAttention, 4, 2, bias=False)(x, x, x)[0],
    ),
}


def computed(name: str, mode: Any) -> tuple[list[Any], list[Any]]:
    sizes, call = CALLS[name]
    x = ramp(*sizes).requires_grad_()
    with mode:
        result = call(x)
        (gradient,) = tt.autograd.grad((result * result).sum(), x)
    return result.detach().flatten().tolist(), gradient.flatten().tolist()


@pytest.mark.parametrize("name", CALLS)
def test_values_and_gradients_are_those_without_a_mode(name: str) -> None:
    expected, gradient = computed(name, nullcontext())
    seen, of_mode = computed(name, Through())
    assert seen == pytest.approx(expected, rel=1e-12, abs=1e-14)
    assert of_mode == pytest.approx(gradient, rel=1e-12, abs=1e-14)
    assert any(gradient)


def test_a_mask_of_bools_hides_keys_under_a_mode() -> None:
    x = ramp(1, 2, 3, 4).float()
    mask = tt.tensor([[True, False, True], [True, True, False], [False, True, True]])
    expected = F.scaled_dot_product_attention(x, x, x, mask)
    with Through():
        seen = F.scaled_dot_product_attention(x, x, x, mask)
    assert seen.flatten().tolist() == pytest.approx(expected.flatten().tolist(), rel=1e-6, abs=1e-7)


def test_views_of_a_split_cannot_be_written_to_under_a_mode() -> None:
    x = ramp(4, 6).requires_grad_()
    with Through():
        first, second = (x * 2).split(2)
        assert first.grad_fn is second.grad_fn
        assert first._is_view()
        with pytest.raises(RuntimeError, match="Output 0 of Split is a view and is being modified inplace"):
            first.mul_(2)
        parts = (x * 2).unsafe_split(2)
        assert not parts[0]._is_view()
        parts[0].mul_(2)


class Logged(tt.Tensor):
    """Wrapper of a tensor that records the operators that it sees."""

    names: list[str]
    inner: tt.Tensor

    @staticmethod
    def __new__(cls, inner: tt.Tensor) -> Logged:
        made: Logged = tt.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner = inner
        return made

    @classmethod
    def __tensor_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.names.append(func.name().removeprefix("aten::"))
        tree_map = tt.utils._pytree.tree_map
        result = func(*tree_map(lambda x: x.inner if isinstance(x, Logged) else x, args), **(kwargs or {}))
        return tree_map(lambda x: Logged(x) if isinstance(x, tt.Tensor) else x, result)


def test_a_subclass_sees_a_split_whole() -> None:
    x = Logged(ramp(4, 6)).requires_grad_()
    Logged.names = []
    (first, _) = x.split(2)
    assert Logged.names == ["split.Tensor"]
    first.sum().backward()
    assert x.grad.inner.tolist() == [[1.0] * 6] * 2 + [[0.0] * 6] * 2


def test_a_second_derivative_of_a_convolution_under_a_mode() -> None:
    x = ramp(1, 1, 5).requires_grad_()
    weight = tt.tensor([[[1.0, -2.0]]], dtype=tt.float64, requires_grad=True)
    with Through():
        (gradient,) = tt.autograd.grad((F.conv1d(x, weight) ** 2).sum(), x, create_graph=True)
        (second,) = tt.autograd.grad(gradient.sum(), weight)
    (gradient,) = tt.autograd.grad((F.conv1d(x, weight) ** 2).sum(), x, create_graph=True)
    (expected,) = tt.autograd.grad(gradient.sum(), weight)
    assert second.flatten().tolist() == pytest.approx(expected.flatten().tolist(), rel=1e-12)
