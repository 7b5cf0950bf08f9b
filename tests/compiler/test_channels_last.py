"""Chains of convolutions convert to channels-last: they move fewer bytes, and are bitwise identical to
eager.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler.channel_norms import is_channels_last
from triten.compiler.passes.channels_last import bytes_of_copy, choose_channels_last
from triten.compiler.pipeline import run_passes
from triten.tests.compiler.beside_eager import agree, same
from triten.tests.compiler.test_epilogues import launches, operands

if sys.platform != "linux":  # where a wheel exists, a missing Triton is a failure
    pytest.importorskip("triton", reason="triton has no wheel for this platform")

from triten.triton_kernels.convolution import convolution, layout_copies

F = tt.nn.functional
PICTURE, WEIGHT = (2, 8, 6, 5), (8, 8, 3, 3)


@pytest.fixture(autouse=True)
def copying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convert the layout of operands of any size."""
    monkeypatch.setattr(layout_copies, "COPY_THRESHOLD", 0)
    monkeypatch.setattr(convolution, "COPY_THRESHOLD", 0)


def conv(x: tt.Tensor, w: tt.Tensor, **window: Any) -> tt.Tensor:
    return F.conv2d(x, w, padding=1, **window)


def three(x: tt.Tensor, w: tt.Tensor) -> tt.Tensor:
    return conv(conv(conv(x, w).relu(), w).relu(), w)


def block(x: tt.Tensor, w: tt.Tensor, v: tt.Tensor, s: tt.Tensor) -> tt.Tensor:
    y = F.relu(F.batch_norm(conv(x, w), s, s * s, s, s))
    return F.relu(F.batch_norm(conv(y, v), s, s * s, s, s) + x)


def network(x: tt.Tensor, w: tt.Tensor, v: tt.Tensor, s: tt.Tensor) -> tt.Tensor:
    return block(block(block(x, w, v, s), w, v, s), v, w, s).amax((2, 3))


CASES: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...], int]] = {
    "three of them": (three, (PICTURE, WEIGHT), 3),
    "residual blocks": (network, (PICTURE, WEIGHT, WEIGHT, (8,)), 6),
    "strides": (
        lambda x, w: conv(conv(conv(x, w, stride=2).relu(), w), w, stride=2).sigmoid(),
        (PICTURE, WEIGHT),
        3,
    ),
    "a result between": (
        lambda x, w: (y := conv(conv(x, w), w).relu(), conv(conv(conv(conv(y, w), w), w), w)),
        (PICTURE, WEIGHT),
        6,
    ),
    "two branches": (
        lambda x, w, v: conv(conv(x, w).relu() * conv(x, v).sigmoid(), w),
        (PICTURE, WEIGHT, WEIGHT),
        3,
    ),
    "a few channels first": (
        lambda x, u, w: conv(conv(conv(conv(x, u), w).relu(), w), w).amax((2, 3)),
        ((2, 3, 6, 5), (8, 3, 3, 3), WEIGHT),
        4,
    ),
    "numbers of channels and of places": (
        lambda x, w, s, p: conv(conv(conv(x, w) * s, w) + p, w).amax((2, 3)),
        (PICTURE, WEIGHT, (8, 1, 1), (6, 5)),
        3,
    ),
}
"""Functions, the shapes of their arguments, and how many convolutions read pixels."""


def graph_of(function: Callable[..., Any], *made: tt.Tensor) -> Any:
    return run_passes(tt.func.make_graph(function, "fake")(*made).graph)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [tt.float32, tt.float16, tt.bfloat16], ids=str)
def test_results_are_those_of_eager_calls(name: str, dtype: Any) -> None:
    function, shapes, count = CASES[name]
    made = operands(*shapes, dtype=dtype)
    graph = graph_of(function, *made)
    assert choose_channels_last(graph)
    graph.lint()
    assert sum(node.val.strides[1] == 1 for node in graph.find_nodes(op="call_function")
               if node.target is tt.ops.aten.convolution.default) == count  # fmt: skip
    assert not choose_channels_last(graph)
    agree(function, lambda: tuple(made), calls=1)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: conv(x, w),
        lambda x, w: conv(conv(x, w).relu(), w),
        lambda x, w: ((y := conv(x, w)), (z := conv(y, w)), conv(z, w)),
        lambda x, w: conv(conv(conv(x, w).cumsum(0), w).cumsum(0), w),
        lambda x, w: F.conv2d(F.conv2d(F.conv2d(x, w[:, :, :1, :1]), w[:, :, 1:2, :1]), w[:, :, :1, :1]),
        lambda x, w: conv(conv(conv(x, w[:, :1], groups=8), w[:, :1], groups=8), w[:, :1], groups=8),
        lambda x, w: conv(conv(conv(x[:, :5], w[:5, :5]), w[:5, :5]), w[:5, :5]),
    ],
    ids=["one", "two", "all are results", "apart", "one tap", "depthwise", "a ragged number of channels"],
)
def test_what_stays(function: Callable[..., Any]) -> None:
    """Keep the layout if channels-last moves no fewer bytes or would change the order of sums."""
    made = operands(PICTURE, WEIGHT)
    assert not choose_channels_last(graph_of(function, *made))
    agree(function, lambda: tuple(made), calls=1)


def test_what_a_copy_would_compute_costs_more() -> None:
    """Launch two steps before a chain separately where their result is converted, but no epilogue."""

    def chain(x: tt.Tensor, w: tt.Tensor) -> tt.Tensor:
        return conv(conv(conv(x, w).relu(), w).relu(), w)

    made = operands(PICTURE, WEIGHT)
    assert choose_channels_last(graph_of(lambda x, w: chain(x, w).amax((2, 3)), *made))
    computed = lambda x, w: chain(F.batch_norm(x, w[0, :, 0, 0], w[0, :, 0, 0] ** 2).cos(), w).amax((2, 3))  # noqa: E731
    assert not choose_channels_last(graph_of(computed, *made))
    agree(computed, lambda: tuple(made), calls=1)
    behind = lambda x, w: chain(F.conv2d(x, w[:, :, :1, :1]).cos() * 2, w).amax((2, 3))  # noqa: E731
    assert choose_channels_last(graph_of(behind, *made))


def test_small_convolutions_copy_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made = operands(PICTURE, WEIGHT)
    (node,) = graph_of(conv, *made).find_nodes(op="call_function")
    assert bytes_of_copy(node) == 2 * 2 * 8 * 6 * 5 * 4
    monkeypatch.setattr(convolution, "COPY_THRESHOLD", 1 << 24)
    assert bytes_of_copy(node) is None
    assert not choose_channels_last(graph_of(three, *made))


def test_results_keep_their_strides_and_write_to_nothing_else() -> None:
    made = operands(PICTURE, WEIGHT)
    found = tt.compile(three, fullgraph=True)(*made)
    assert found.is_contiguous() and not is_channels_last(found._spec)
    before = made[0].clone()
    found.zero_()
    same(made[0], before)


def test_launches() -> None:
    """Launch a conversion at each end, and a convolution and a copy of its weight for each layer, as eager
    does.
    """
    made = operands(PICTURE, WEIGHT)
    compiled = tt.compile(three, fullgraph=True)
    compiled(*made)
    assert (launches(lambda: compiled(*made)), launches(lambda: three(*made))) == (8, 8)


def test_training_converts_what_backward_does_not_keep() -> None:
    def step(function: Callable[..., Any]) -> list[Any]:
        leaves = [a.requires_grad_() for a in operands(PICTURE, WEIGHT)]
        result = function(*leaves)
        result.sum().backward()
        return [result.detach(), *[leaf.grad for leaf in leaves]]

    same(step(tt.compile(three, fullgraph=True)), step(three))


PROGRAM = """
import json

import triten as tt
from triten.compiler.channel_norms import is_channels_last
from triten.compiler.product_kernel import ProductKernel
from triten.tests.compiler.beside_eager import drawn, same
from triten.triton_kernels.convolution import convolution, layout_copies

layout_copies.COPY_THRESHOLD = convolution.COPY_THRESHOLD = 0
F = tt.nn.functional


def f(x, w):
    y = F.relu(F.conv2d(x, w, padding=1) * 0.3)
    y = F.relu(F.conv2d(y, w, padding=1) * 0.3 + y)
    return F.conv2d(y, w, padding=1).amax((2, 3))


found = []
for dtype in (tt.bfloat16, tt.float32):
    made = [drawn(*each, device="cuda", dtype=dtype, seed=i) for i, each in enumerate(((1, 72, 9, 8), (72, 72, 3, 3)))]
    same(tt.compile(f, fullgraph=True)(*made), f(*made), str(dtype))
    kernels = [k for k in tt.compiler.explain(f, *made).schedules[0].kernels if isinstance(k, ProductKernel)]
    found.append([is_channels_last(each.product.node.val) for each in kernels])
print(json.dumps(found))
"""


@pytest.mark.parametrize("target", ["80", "90"])
def test_what_is_compiled_adds_up_in_the_same_order(target: str) -> None:
    clean = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    variables = {"TRITEN_CUDA": "emulate", "TRITEN_EMULATE": target, "TRITEN_TUNING_STORE": "0"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM], capture_output=True, text=True, env=clean | variables
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout) == [[True, True]] * 2
