"""Native loops run beside guard pages: an out-of-bounds load or store ends the process.

Every input ends where an inaccessible page starts, or starts where one ends; so do the results of compiled
kernels and the buffers of eager loops. Sizes are odd, so that vectors, tiles and parts have remainders.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.compiler.host import loops, ranged_loops, reduction_loops
from triten.cpu_fallback import plain_numpy
from triten.cpu_fallback.indexing.index_loop import index_loop
from triten.cpu_fallback.products import row_addition
from triten.cpu_fallback.reduction.bincount_loop import bincount_loop
from triten.cpu_fallback.reduction.column_extremum_loop import column_extremum_loop
from triten.runtime.cpu import workspace
from triten.runtime.tensor_spec import TensorSpec
from triten.tests.compiled_code import needs_llvm

pytestmark = [needs_llvm, pytest.mark.skipif(sys.platform != "linux", reason="mprotect as Linux has it")]
Array = np.ndarray[Any, Any]
F = tt.nn.functional


def guarded(shape: tuple[int, ...], dtype: Any, *, ends: bool) -> Array:
    """Return an array whose last byte is before a page without access, or whose first one is behind such a page."""
    nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
    pages = -(-nbytes // mmap.PAGESIZE) or 1
    region = mmap.mmap(-1, (pages + 2) * mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = ctypes.addressof(ctypes.c_char.from_buffer(region))
    start_of_last = start + (pages + 1) * mmap.PAGESIZE
    libc = ctypes.CDLL(None, use_errno=True)
    for page in (start, start_of_last):
        assert libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    offset = (pages + 1) * mmap.PAGESIZE - nbytes if ends else mmap.PAGESIZE
    return np.frombuffer(region, np.uint8, nbytes, offset).view(dtype).reshape(shape)


@pytest.fixture(params=[True, False], ids=["ends", "begins"])
def ends(request: pytest.FixtureRequest) -> bool:
    """Return True if arrays end where a page without access starts, False if they start where one ends."""
    return request.param


@pytest.fixture
def beside(ends: bool, monkeypatch: pytest.MonkeyPatch) -> Callable[[tt.Tensor], tt.Tensor]:
    """Return a function that copies a tensor to guarded memory, where results of compiled kernels lie as well."""

    def allocator_of(spec: TensorSpec) -> Callable[[], Array]:
        assert spec.is_contiguous
        return lambda: guarded(tuple(spec.sizes), spec.np_dtype, ends=ends)

    for module in (loops, ranged_loops, reduction_loops):
        monkeypatch.setattr(module, "allocator_of", allocator_of)

    def copied(x: tt.Tensor) -> tt.Tensor:
        array = x.detach().numpy()
        own = guarded(array.shape, array.dtype, ends=ends)
        own[...] = array
        return tt.from_numpy(own).requires_grad_(x.requires_grad)

    return copied


@pytest.fixture
def guarded_buffers(ends: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let eager kernels allocate their buffers and results in guarded memory."""

    def empty(shape: Any, dtype: Any = float, order: str = "C", **options: Any) -> Array:
        sizes = tuple(shape) if isinstance(shape, (tuple, list)) else (int(shape),)
        if order != "C" or options or np.dtype(dtype).hasobject or 0 in sizes:
            return real(shape, dtype, order, **options)
        return guarded(sizes, dtype, ends=ends)

    real = np.empty
    monkeypatch.setattr(workspace._kept, "room", None)
    for module in (np, plain_numpy.np):
        monkeypatch.setattr(module, "empty", empty)


def floats(*shape: int) -> tt.Tensor:
    numbers = np.random.default_rng(shape).standard_normal(shape)
    return tt.tensor(numbers.astype(np.float32))


def numbers(size: int, *shape: int) -> tt.Tensor:
    return tt.tensor(np.random.default_rng(shape).integers(0, size, shape))


SHAPES = [(7,), (33, 129), (257, 131), (3, 5, 1021)]
FAMILIES: dict[str, Callable[..., Any]] = {
    "pointwise": lambda x: ((x * 2 + 1).relu() - x.abs(), x > 0),
    "turned": lambda x: x.transpose(0, -1) * 2 + x.transpose(0, -1).abs(),
    "steps": lambda x: x[..., ::2] * 2 + x[..., ::2],
    "broadcast": lambda x: x * x[..., :1] + x[..., :1],
    "ranges": lambda x: x.sin() + x.cos(),
    "functions": lambda x: F.gelu(x).sigmoid().log1p(),
    "halves": lambda x: (x.half() * 2).float() + x,
    "bytes": lambda x: (x > 0) & (x < 1),
    "rows": lambda x: (x * 2 - x.amax(-1, keepdim=True), x.sum(-1)),
    "norm": lambda x: F.layer_norm(x * 2, x.shape[-1:]) + 1,
    "sums": lambda x: (x * 2).sum(0),
    "extrema": lambda x: (x + 1).amax(0),
    "variances": lambda x: x.var(0),
    "softmax": lambda x: (x * 2).softmax(-1),
    "joins": lambda x: tt.cat([x * 2, x - 1], -1) + 1,
    "gathers": lambda x: x.gather(-1, x.long().abs().remainder(x.shape[-1])) * 2,
    "dropout": lambda x: F.dropout(x * 2, 0.25) + 1,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_compiled_kernels(family: str, beside: Callable[[tt.Tensor], tt.Tensor]) -> None:
    function = FAMILIES[family]
    for shape in SHAPES[family in ("rows", "norm", "sums", "extrema", "variances", "softmax") :]:
        x = floats(*shape)
        tt.manual_seed(0)
        expected = function(x)
        tt.manual_seed(0)
        found = tt.compile(function, fullgraph=True)(beside(x))
        for a, b in zip(*(v if isinstance(v, tuple) else (v,) for v in (found, expected)), strict=True):
            tt.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_picks(beside: Callable[[tt.Tensor], tt.Tensor]) -> None:
    x, of_rows, line = floats(67, 131), numbers(131, 67, 1), numbers(131, 57)
    given = [beside(each) for each in (x, of_rows, line)]
    for function in (
        lambda x, k, p: x.index_select(-1, p) * 2,
        lambda x, k, p: x[..., p] - 1,
        lambda x, k, p: (x * 2).amax(-1, keepdim=True) - (x * 2).gather(-1, k),
    ):
        tt.testing.assert_close(tt.compile(function, fullgraph=True)(*given), function(x, of_rows, line))


def gates(count: int, inputs: int, width: int) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of a recurrent layer's operands: nine steps of 21 sequences, weights, biases."""
    rows = count * width
    return (9, 21, inputs), (rows, inputs), (rows, width), (rows,), (rows,)


def last(x: tt.Tensor) -> tt.Tensor:
    return x.to(memory_format=tt.channels_last)


STATES = floats(2, 1, 21, 64)
CALLS: dict[str, tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]] = {
    "convolution": (lambda x, w: F.conv2d(x, w, padding=1), ((2, 5, 19, 23), (7, 5, 3, 3))),
    "strided": (lambda x, w: F.conv2d(x, w, stride=2), ((1, 17, 33, 31), (33, 17, 5, 3))),
    "panels": (lambda x, w: F.conv2d(x, w, padding=1), ((2, 29, 7, 9), (19, 29, 3, 3))),
    "panels of lines": (lambda x, w: F.conv2d(x, w, padding=1), ((1, 25, 37, 41), (33, 25, 3, 3))),
    "panels of many channels": (lambda x, w: F.conv2d(x, w, padding=1), ((2, 131, 5, 3), (257, 131, 3, 3))),
    "strided panels": (lambda x, w: F.conv2d(x, w, stride=2, padding=1), ((3, 27, 11, 13), (17, 27, 3, 3))),
    "dilated panels": (lambda x, w: F.conv2d(x, w, dilation=2), ((1, 31, 9, 11), (35, 31, 3, 3))),
    "depthwise": (lambda x, w: F.conv2d(x, w, padding=1, groups=19), ((1, 19, 21, 17), (19, 1, 3, 3))),
    "attention": (F.scaled_dot_product_attention, ((1, 3, 67, 33), (1, 3, 71, 33), (1, 3, 71, 33))),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), ((3, 7, 11, 13), (7,), (7,))),
    "group_norm": (lambda x, w, b: F.group_norm(x, 3, w, b), ((3, 9, 11, 13), (9,), (9,))),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (129,), w, b), ((65, 129), (129,), (129,))),
    "rms_norm": (lambda x, w: F.rms_norm(x, (131,), w), ((67, 131), (131,))),
    "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), ((3, 19, 21, 23),)),
    "max_pool2d of channels-last": (lambda x: F.max_pool2d(last(x), 3, 2, 1), ((3, 19, 21, 23),)),
    "max_pool1d": (lambda x: F.max_pool1d(x, 5, 3, 2), ((3, 67, 129),)),
    "adaptive_max_pool2d": (lambda x: F.adaptive_max_pool2d(x, (5, 1)), ((3, 19, 21, 23),)),
    "adaptive_max_pool2d of planes": (lambda x: F.adaptive_max_pool2d(x, 1), ((3, 19, 21, 23),)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), ((3, 19, 21, 23),)),
    "avg_pool2d of channels-last": (lambda x: F.avg_pool2d(last(x), 3, 2, 1), ((3, 19, 21, 23),)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (5, 3)), ((3, 19, 21, 23),)),
    "avg_pool2d of planes": (lambda x: F.avg_pool2d(x, (21, 23)), ((3, 39, 21, 23),)),
    "softmax of short rows": (lambda x: F.softmax(x, 1), ((257, 67),)),
    "log_softmax of short rows": (lambda x: F.log_softmax(x, 1), ((257, 67),)),
    "softmax of lines": (lambda x: F.softmax(x, 1), ((3, 19, 23, 31),)),
    "log_softmax of lines": (lambda x: F.log_softmax(x, 1), ((3, 19, 23, 31),)),
    "gelu": (F.gelu, ((129, 131),)),
    "lstm": (
        lambda x, *w: tt.lstm(x, list(STATES), w, True, 1, 0.0, True, False, False)[0],
        gates(4, 11, 64),
    ),
    "gru": (lambda x, *w: tt.gru(x, STATES[0], w, True, 1, 0.0, True, False, False)[0], gates(3, 11, 64)),
    "rnn": (
        lambda x, *w: tt.rnn_relu(x, STATES[0], w, True, 1, 0.0, True, False, False)[0],
        gates(1, 11, 64),
    ),
}


@pytest.mark.usefixtures("guarded_buffers")
@pytest.mark.parametrize("name", CALLS)
def test_eager_loops_and_their_gradients(name: str, beside: Callable[[tt.Tensor], tt.Tensor]) -> None:
    function, shapes = CALLS[name]
    plain = [floats(*shape).requires_grad_() for shape in shapes]
    given = [beside(each) for each in plain]
    found, expected = function(*given), function(*plain)
    tt.testing.assert_close(found, expected)
    change = floats(*expected.shape)
    expected.backward(change)
    found.backward(beside(change) if expected.is_contiguous() else last(change))
    for a, b in zip(given, plain, strict=True):
        tt.testing.assert_close(a.grad, b.grad)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "SGD"])
def test_optimizers(name: str, beside: Callable[[tt.Tensor], tt.Tensor]) -> None:
    plain = [floats(n).requires_grad_() for n in (1, 7, 129, 4099)]
    given = [beside(each) for each in plain]
    for parameters, own in ((plain, lambda x: x), (given, beside)):
        optimizer = getattr(tt.optim, name)(parameters, lr=0.1)
        for _ in range(3):
            for p in parameters:
                p.grad = own(floats(p.numel()))
            optimizer.step()
    for a, b in zip(given, plain, strict=True):
        tt.testing.assert_close(a, b)


def test_random_numbers(beside: Callable[[tt.Tensor], tt.Tensor]) -> None:
    for size in (7, 1023, 4099):
        for fill in ("uniform_", "normal_", "bernoulli_", "random_"):
            own, plain = beside(tt.zeros(size)), tt.zeros(size)
            for each in (own, plain):
                tt.manual_seed(1)
                getattr(each, fill)()
            assert (own == plain).all()


@pytest.mark.parametrize("sizes", [(9, 1), (1, 131), (67, 131), (7, 1100)])
def test_loops_of_columns_and_indices(sizes: tuple[int, int], ends: bool) -> None:
    rng, (length, inner) = np.random.default_rng(sizes), sizes
    array = guarded(sizes, np.float32, ends=ends)
    array[...] = rng.standard_normal(sizes)
    values, indices = guarded((inner,), np.float32, ends=ends), guarded((inner,), np.int64, ends=ends)
    column_extremum_loop("argmax", "float32")(
        np.array([0, 1, 0, inner, length, inner]), values, indices, array
    )
    assert (values == array.max(0)).all() and (indices == array.argmax(0)).all()
    counted = guarded((length * inner,), np.int64, ends=ends)
    counted[...] = rng.integers(0, 50, counted.size)
    sums, largest = guarded((41,), np.int64, ends=ends), np.zeros((), np.uint64)
    bincount_loop("")(np.array([counted.size, 40]), sums, largest, counted)
    assert (sums[:40] == np.bincount(counted, minlength=40)[:40]).all() and largest == counted.max()
    for flat, (outer, picked, size, last) in (
        (True, (length, inner, inner, 1)),
        (False, (1, length, length, inner)),
    ):
        places = guarded(sizes, np.int64, ends=ends)
        places[...] = rng.integers(0, size, sizes)
        places[-1, -1] = size  # out of bounds
        numbers = np.array([0, outer, 0, last, picked, size, last, picked * last, last, picked * last, last])
        failed = np.zeros((), np.int64)
        found = guarded(sizes, np.float32, ends=ends)
        index_loop("gather", "32 bits", flat, True, True)(numbers, found, array, places, failed)
        assert failed
        within = places.copy()
        within[-1, -1] = 0
        shape = (outer, picked, last)
        expected = np.take_along_axis(array.reshape(shape), within.reshape(shape), 1).reshape(sizes)
        assert (found.ravel()[:-1] == expected.ravel()[:-1]).all()
        failed[...] = 0
        index_loop("scatter_add", "float32", flat, True, True)(numbers, found, array, places, failed)
        assert failed


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_vectors_added_to_rows(
    dtype: str, beside: Callable[[tt.Tensor], tt.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = row_addition._loop_of(dtype)
    monkeypatch.setattr(row_addition._LOOPS[dtype], "loop", loop)
    for rows, columns in ((1, 1), (7, 3), (3, 17), (33, 129)):
        x, w, b = (floats(*shape).to(getattr(tt, dtype)) for shape in ((rows, 5), (columns, 5), (columns,)))
        expected = x @ w.t() + b
        x, w, b = beside(x), beside(w), beside(b)
        assert (F.linear(x, w, b) == expected).all() and (tt.addmm(b, x, w.t()) == expected).all()
        matrix = guarded((rows, columns), dtype, ends=True)
        matrix[...] = 1
        loop(np.array([rows, columns]), matrix, b.numpy())
        assert (matrix == 1 + b.numpy()).all()
