"""Operators that PyTorch's derivatives and composites call, under `tt.ops.aten`; the numbers are PyTorch's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import triten as tt

aten = tt.ops.aten
F = tt.nn.functional


def _close(found: tt.Tensor, expected: list[Any]) -> None:
    tt.testing.assert_close(found, tt.tensor(expected, dtype=found.dtype), atol=5e-5, rtol=0)


def test_log_sigmoid_and_its_gradient(device: str) -> None:
    x = tt.linspace(-2, 2, 5, device=device)
    result, buffer = aten.log_sigmoid_forward(x)
    tt.testing.assert_close(result, F.logsigmoid(x))
    tt.testing.assert_close(buffer, tt.exp(-x.abs()))
    into = tt.empty(0, device=device), tt.empty(0, device=device)
    written = aten.log_sigmoid_forward.output(x, output=into[0], buffer=into[1])
    assert written[0] is into[0] and tt.equal(into[0], result) and tt.equal(into[1], buffer)
    grad = aten.log_sigmoid_backward(tt.ones_like(x), x, buffer)
    _close(grad.cpu(), [0.8808, 0.7311, 0.5, 0.2689, 0.1192])


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize(
    ("name", "loss", "bound"),
    [
        ("huber_loss_backward", F.huber_loss, 1.5),
        ("smooth_l1_loss_backward", F.smooth_l1_loss, 1.5),
        ("smooth_l1_loss_backward", F.smooth_l1_loss, 0.0),
    ],
)
def test_gradients_of_losses(name: str, loss: Any, bound: float, reduction: int, device: str) -> None:
    x = tt.linspace(-3, 3, 7, device=device).requires_grad_()
    target = tt.tensor([0.5], device=device).expand(7)
    options = {"huber_loss_backward": "delta", "smooth_l1_loss_backward": "beta"}
    result = loss(x, target, reduction=("none", "mean", "sum")[reduction], **{options[name]: bound})
    grad = tt.cos(result.detach())
    (expected,) = tt.autograd.grad(result, x, grad)
    tt.testing.assert_close(getattr(aten, name)(grad, x.detach(), target, reduction, bound), expected)


def test_a_gradient_of_the_huber_loss_is_written_to_an_output() -> None:
    out = tt.empty(0)
    given = (tt.tensor(1.0), tt.linspace(-3, 3, 7), tt.zeros(7), 1, 1.5)
    assert aten.huber_loss_backward.out(*given, grad_input=out) is out
    _close(out, [-0.2143, -0.2143, -0.1429, 0.0, 0.1429, 0.2143, 0.2143])


@pytest.fixture
def mersenne_twister() -> Iterator[None]:
    """Generate PyTorch's random numbers."""
    tt.random.set_cpu_engine("mt19937")
    yield
    tt.random.set_cpu_engine("philox")


@pytest.mark.usefixtures("mersenne_twister")
def test_leaky_rectifiers_write_their_noise() -> None:
    x, noise = tt.linspace(-2, 2, 7), tt.zeros(7)
    tt.manual_seed(0)
    result = aten.rrelu_with_noise(x, noise, 0.1, 0.3, True)
    _close(result, [-0.5880, -0.3221, -0.1279, 0.0, 0.6667, 1.3333, 2.0])
    _close(noise, [0.2940, 0.2416, 0.1919, 0.2841, 1.0, 1.0, 1.0])
    tt.manual_seed(0)
    assert tt.equal(tt.rrelu(x, 0.1, 0.3, training=True), result)
    tt.manual_seed(0)
    given, other = x.clone(), tt.zeros(7)
    assert aten.rrelu_with_noise_(given, other, 0.1, 0.3, True) is given
    assert tt.equal(given, result) and tt.equal(other, noise)
    tt.manual_seed(0)
    out = tt.empty(0)
    assert aten.rrelu_with_noise.out(x, other, 0.1, 0.3, True, out=out) is out and tt.equal(out, result)
    untouched = tt.full((7,), 5.0)
    _close(aten.rrelu_with_noise(x, untouched, 0.1, 0.3), [-0.4, -0.2667, -0.1333, 0.0, 0.6667, 1.3333, 2.0])
    assert untouched.tolist() == [5.0] * 7
    backward = aten.rrelu_with_noise_backward
    assert tt.equal(backward(tt.ones(7), x, noise, 0.1, 0.3, True, False), noise)
    mean = [0.2] * 4 + [1.0] * 3
    for is_result in (True, False):
        _close(backward(tt.ones(7), x, noise, 0.1, 0.3, False, is_result), mean)


def test_the_noise_fits_the_input() -> None:
    x = tt.linspace(-2, 2, 7)
    with pytest.raises(
        RuntimeError, match=r"noise tensor shape must match self tensor shape. Got self.shape = \[7\]"
    ):
        aten.rrelu_with_noise(x, tt.zeros(3), 0.1, 0.3, True)
    with pytest.raises(RuntimeError, match="expected scalar type Float but found Double"):
        aten.rrelu_with_noise(x, tt.zeros(7, dtype=tt.float64), 0.1, 0.3, True)


def test_noise_of_a_recorded_rectifier() -> None:
    x, noise = tt.linspace(-2, 2, 7, requires_grad=True), tt.zeros(7)
    tt.manual_seed(1)
    aten.rrelu_with_noise(x, noise, 0.1, 0.3, True).sum().backward()
    assert x.grad is not None and tt.equal(x.grad, noise) and not noise.requires_grad


def test_trilinear_contractions(device: str) -> None:
    a, b = tt.arange(6.0, device=device).view(2, 3), tt.arange(8.0, device=device).view(2, 4)
    weight = tt.arange(60.0, device=device).view(5, 3, 4).sin()
    found = aten._trilinear(a, weight, b, [1, 3], [0], [1, 2], [2, 3])
    tt.testing.assert_close(found, F.bilinear(a, b, weight))
    x = tt.arange(3.0, device=device)
    whole = tt._trilinear(x, x, x, [], [], [], [], 0)
    assert whole.tolist() == [0.0, 1.0, 8.0]
    apart = tt._trilinear(x, x, x, [1, 2], [1, 2], [1, 2], [0])
    assert apart.tolist() == [[9.0]]
    with pytest.raises(RuntimeError, match=r"unroll_dim must be in \[0,2\]"):
        tt._trilinear(x, x, x, [1, 2], [1, 2], [1, 2], [0], 3)


class _Seen(tt.TensorDispatchMode):
    """The calls that the mode sees."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Any]] = []

    def __tensor_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls.append((str(func), args))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", ["tril_indices", "triu_indices"])
def test_a_mode_sees_indices_of_triangles(name: str) -> None:
    with _Seen() as mode:
        made = getattr(tt, name)(3, 2, -1, dtype=tt.int32)
    assert mode.calls == [(f"aten.{name}.default", (3, 2, -1))]
    assert made.dtype is tt.int32
    out = tt.empty(0, dtype=tt.int64)
    assert getattr(aten, name).out(3, 2, -1, out=out) is out
    assert out.tolist() == made.tolist()


def test_a_mode_sees_the_operators_whole() -> None:
    x = tt.linspace(-2, 2, 4)
    calls = {
        "log_sigmoid_forward": (x,),
        "log_sigmoid_backward": (x, x, x),
        "huber_loss_backward": (x, x, x, 0, 1.0),
        "smooth_l1_loss_backward": (x, x, x, 0, 1.0),
        "rrelu_with_noise": (x, x.clone()),
        "rrelu_with_noise_backward": (x, x, x, 0.1, 0.3, True, False),
        "elu_backward": (x, 1.0, 1.0, 1.0, False, x),
        "_trilinear": (x, x, x, [], [], [], [], 0),
    }
    for name, args in calls.items():
        with _Seen() as mode:
            getattr(aten, name)(*args)
        assert [each for each, _ in mode.calls] == [f"aten.{name}.default"]


def test_a_mode_sees_the_operators_that_composites_call() -> None:
    x, weight = tt.linspace(-2, 2, 6).view(2, 3), tt.ones(4, 3, 3)
    with _Seen() as mode:
        F.rrelu(x, training=True)
        F.bilinear(x, x, weight)
    names = [name for name, _ in mode.calls]
    assert names[:2] == ["aten.empty_like.default", "aten.rrelu_with_noise.default"]
    assert "aten._trilinear.default" in names and "aten.mm.default" not in names
