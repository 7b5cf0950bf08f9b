"""Kernels that only larger tensors reach, at the least sizes that do: against the CPU, on a card and emulated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import triten as tt
from triten.runtime.cuda.driver import wants_interpreter

from .first_checks import NeedsACard, check, fresh_numbers, require

F = tt.nn.functional


def numbers(*sizes: int) -> Any:
    """Return normal random numbers on the host."""
    return tt.from_numpy(fresh_numbers().standard_normal(sizes).astype(np.float32))


def few_numbers(*sizes: int) -> Any:
    """Return int8 numbers from -9 to 8."""
    return tt.from_numpy(fresh_numbers().integers(-9, 9, sizes).astype(np.int8))


def halves(*sizes: int) -> Any:
    """Return `numbers` as bfloat16."""
    return numbers(*sizes).to(tt.bfloat16)


def pictures(*sizes: int) -> Any:
    """Return `halves` as channels-last."""
    return halves(*sizes).to(memory_format=tt.channels_last)


def columns() -> int:
    """Return a column count of one tile's width per multiprocessor, plus 8."""
    return 128 * tt.cuda.get_device_properties().multi_processor_count + 8


def with_gradients(function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
    """Wrap a function to return its result and the gradient of each argument."""

    def run(*arguments: Any) -> tuple[Any, ...]:
        leaves = [a.detach().requires_grad_() for a in arguments]
        result = function(*leaves)
        numbers_of_result = tt.linspace(-1, 1, result.numel()).to(result.device).reshape(result.shape)
        weights = tt.empty_like(result).copy_(numbers_of_result)  # in the result's layout
        return (result.detach(), *tt.autograd.grad((result * weights).sum(), leaves))

    return run


def segments(data: Any) -> Any:
    lengths = tt.tensor([0, 700, 1, 299], device=data.device)
    return tt.segment_reduce(data, "mean", lengths=lengths)


def packed(q: Any, k: Any, v: Any) -> Any:
    """Attention in two sequences, of which the second one sees the past of a window."""
    ends_q, ends_k = (tt.tensor([0, 70, each.shape[0]], dtype=tt.int32).to(q.device) for each in (q, k))
    return tt.ops.aten._varlen_attn(q, k, v, ends_q, ends_k, 40, 0)[0].float()


def in_window(q: Any, k: Any, v: Any) -> Any:
    """Compute windowed attention of two batches."""
    heads = (x.reshape(2, -1, *x.shape[1:]).transpose(1, 2) for x in (q, k, v))
    return tt.ops.aten._sliding_window_attn(*heads, 40, 0)[0].float()


def in_pages(q: Any, k: Any, v: Any) -> Any:
    """Attention of two sequences whose keys lie in the odd and in the even pages of 16."""
    counts = tt.tensor([110, 70], dtype=tt.int32).to(q.device)
    table = tt.arange(14, dtype=tt.int32).reshape(7, 2).T.contiguous().to(q.device)
    pools = (x[:224].reshape(14, 16, *x.shape[1:]) for x in (k, v))
    ends = tt.tensor([0, 70, q.shape[0]], dtype=tt.int32).to(q.device)
    return tt.ops.aten._varlen_attn(q, *pools, ends, None, 40, 0, seqused_k=counts, block_table=table)[
        0
    ].float()


CALLS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]], float]] = {
    "sort of 20,000 keys": (
        lambda x: tt.sort(x, stable=True),
        lambda: (numbers(20_000).round(decimals=2),),
        0,
    ),
    "topk among 70,000": (lambda x: tt.topk(x, 12).values, lambda: (numbers(2, 70_000),), 0),
    "kthvalue among 30,000": (lambda x: tt.kthvalue(x, 777).values, lambda: (numbers(30_000),), 0),
    "var of 300,000": (lambda x: tt.var_mean(x), lambda: (numbers(300_000) + 3,), 2e-6),
    "sum of 300,000": (lambda x: x.sum(), lambda: (numbers(300_000),), 1e-3),
    "running extremes of columns in parts, of many equal ones": (
        lambda x: (*tt.cummax(x, 0), *tt.cummin(x, 0)),
        lambda: (few_numbers(131, 70),),
        0,
    ),
    "running extremes of rows in parts, of many equal ones": (
        lambda x: (*tt.cummax(x, 1), *tt.cummin(x, 1)),
        lambda: (few_numbers(3, 5000),),
        0,
    ),
    "logcumsumexp of columns in parts": (lambda x: tt.logcumsumexp(x, 0), lambda: (numbers(131, 70),), 1e-5),
    "cumprod of columns in parts": (
        lambda x: tt.cumprod(x, 0),
        lambda: (1 + numbers(131, 70) / 100,),
        1e-5,
    ),
    "a product whose inner size is the large one": (
        tt.mm,
        lambda: (numbers(16, 6000), numbers(6000, 16)),
        1e-3,
    ),
    "a product of complex matrices": (
        lambda a, b: tt.view_as_real(a @ b),
        lambda: (tt.complex(numbers(40, 50), numbers(40, 50)), tt.complex(numbers(50, 30), numbers(50, 30))),
        1e-4,
    ),
    "a transposed copy": (lambda x: x.T.contiguous(), lambda: (numbers(200, 300),), 0),
    "layer_norm and its gradients over 3,000 rows": (
        with_gradients(lambda x, w, b: F.layer_norm(x, (40,), w, b)),
        lambda: (numbers(3000, 40), numbers(40), numbers(40)),
        2e-3,
    ),
    "layer_norm and its gradients over rows of 9,000": (
        with_gradients(lambda x, w, b: F.layer_norm(x, (9000,), w, b)),
        lambda: (numbers(7, 9000), numbers(9000), numbers(9000)),
        2e-3,
    ),
    "group_norm and its gradients": (
        with_gradients(lambda x, w, b: F.group_norm(x, 3, w, b)),
        lambda: (numbers(2, 6, 300), numbers(6), numbers(6)),
        1e-3,
    ),
    "batch_norm and its gradients": (
        with_gradients(lambda x, w, b: F.batch_norm(x, None, None, w, b, True)),
        lambda: (numbers(4, 5, 900), numbers(5), numbers(5)),
        2e-3,
    ),
    "a convolution of each channel by itself, and its gradients": (
        with_gradients(lambda x, w: F.conv2d(x, w, padding=1, groups=5)),
        lambda: (numbers(2, 5, 9, 11), numbers(5, 1, 3, 3)),
        1e-3,
    ),
    "a convolution with channels outermost, and its gradients": (
        with_gradients(lambda x, w: F.conv2d(x, w, padding=1).float()),
        lambda: (halves(2, 36, 31, 33), halves(40, 36, 3, 3)),
        0.5,
    ),
    "attention of one query to 3,000 keys": (
        F.scaled_dot_product_attention,
        lambda: (numbers(1, 2, 1, 32), numbers(1, 2, 3000, 32), numbers(1, 2, 3000, 32)),
        1e-4,
    ),
    "attention in packed sequences, and its gradients": (
        with_gradients(packed),
        lambda: (halves(200, 2, 64), halves(230, 2, 64), halves(230, 2, 64)),
        5e-2,
    ),
    "attention of batches in a window, and its gradients": (
        with_gradients(in_window),
        lambda: (halves(200, 2, 64), halves(230, 2, 64), halves(230, 2, 64)),
        5e-2,
    ),
    "attention to keys in pages": (
        in_pages,
        lambda: (halves(100, 4, 64), halves(230, 2, 64), halves(230, 2, 64)),
        5e-2,
    ),
    # The following calls use tensor maps if the device has them.
    "a product of 16-bit floats": (
        lambda a, b: tt.mm(a, b).float(),
        lambda: (halves(100, 328), halves(328, 88)),
        0.5,
    ),
    "a product of few rows of 16-bit floats": (
        lambda a, b: tt.mm(a, b.t()).float(),
        lambda: (halves(5, 520), halves(columns(), 520)),
        0.5,
    ),
    "a product of 16-bit floats in more than two tiles for each multiprocessor": (
        lambda bias, a, b: tt.addmm(bias, a, b).float(),
        lambda: (halves(columns()), halves(248, 200), halves(200, columns())),
        0.5,
    ),
    "attention of 16-bit floats": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True).float(),
        lambda: (halves(1, 2, 150, 64), halves(1, 2, 150, 64), halves(1, 2, 150, 64)),
        5e-2,
    ),
    "attention of 16-bit floats with narrow heads": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True).float(),
        lambda: (halves(1, 2, 150, 32), halves(1, 2, 150, 32), halves(1, 2, 150, 32)),
        5e-2,
    ),
    "a convolution of 16-bit floats": (
        lambda x, w: F.conv2d(x, w, padding=1).float(),
        lambda: (pictures(2, 64, 9, 9), pictures(72, 64, 3, 3)),
        0.5,
    ),
    "a convolution of 16-bit floats with channels outermost, and its gradients": (
        with_gradients(lambda x, w: F.conv2d(x, w, padding=1).float()),
        lambda: (halves(2, 40, 16, 32), halves(72, 40, 3, 3)),
        0.5,
    ),
    "a strided convolution of 16-bit floats, and its gradients": (
        with_gradients(lambda x, w: F.conv2d(x, w, stride=2, padding=1).float()),
        lambda: (pictures(8, 64, 8, 8), pictures(64, 64, 3, 3)),
        0.5,
    ),
    "a convolution of 16-bit floats in parts": (
        lambda x, w: F.conv2d(x, w, padding=1).float(),
        lambda: (pictures(1, 512, 4, 3), pictures(72, 512, 3, 3)),
        1.0,
    ),
    "segments and their gradient": (with_gradients(segments), lambda: (numbers(1000, 3),), 1e-4),
    "fractional_max_pool2d": (
        lambda x, s: F.fractional_max_pool2d(x, 2, output_size=(5, 4), _random_samples=s),
        lambda: (numbers(2, 3, 12, 11), tt.rand(2, 3, 2)),
        0,
    ),
    "rows of a table": (
        lambda table, i: F.embedding(i, table),
        lambda: (numbers(50, 700), tt.from_numpy(fresh_numbers().integers(0, 50, 90))),
        0,
    ),
}


def compare(name: str) -> str:
    """Run one call on both devices and raise unless the results agree."""
    if wants_interpreter():
        raise NeedsACard("the interpreter takes too long for it; the emulator does not")
    function, draw, allowed = CALLS[name]
    arguments = draw()
    kernels: list[str] = []

    def seen(kernel: str, grid: Any, stream: int, launch: Callable[[], None]) -> None:
        kernels.append(kernel)
        launch()

    cuda = tt.library.driver()
    before = cuda.observe_launches(seen)
    try:
        got = function(*(a.cuda() for a in arguments))
    finally:
        cuda.observe_launches(before)
    expected = function(*arguments)
    pairs = zip(got, expected, strict=True) if isinstance(got, tuple) else [(got, expected)]
    for one, other in pairs:
        mine, right = one.cpu().numpy(), other.numpy()
        agreed = np.array_equal(np.isnan(mine), np.isnan(right)) and mine.shape == right.shape
        require(agreed, "shapes differ, or where there is nan")
        distance = np.nanmax(np.abs(mine.astype(np.float64) - right.astype(np.float64)), initial=0)
        require(distance <= allowed, f"{distance} apart, allowed are {allowed}")
    return ", ".join(dict.fromkeys(kernels))


def _register(name: str) -> None:
    @check(f"sizes: {name}")
    def run() -> str:
        return compare(name)


for _name in CALLS:
    _register(_name)
