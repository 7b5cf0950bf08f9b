"""How many kernels joining, sorting and reducing launch."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import triten as tt
from triten.tests.runtime.cuda.standin.made_up_kernels import settled, without_code

WITHOUT_CODE = pytest.mark.standin(without_code=1)


def joined(*sizes: tuple[int, ...], count: int = 20) -> list[tt.Tensor]:
    return [tt.ones(*sizes[place % len(sizes)], device="cuda") for place in range(count)]


def joins(program: Callable[[list[tt.Tensor]], object], *sizes: tuple[int, ...]) -> Callable[[], object]:
    tensors = joined(*sizes)
    return lambda: program(tensors)


def on_many(
    program: Callable[[tt.Tensor], object], dtype: tt.dtype = tt.float32, count: int = 1 << 20
) -> Callable[[], object]:
    tensor = tt.zeros(count, device="cuda", dtype=dtype)
    return lambda: program(tensor)


def parts_backward(split: Callable[[tt.Tensor], tuple[tt.Tensor, ...]]) -> Callable[[], object]:
    tensor = tt.ones(100, 64, device="cuda", requires_grad=True)
    parts = split(tensor)
    changes = [tt.ones_like(part) for part in parts]
    return lambda: tt.autograd.grad(parts, tensor, changes, retain_graph=True)


PROGRAMS: dict[str, tuple[Callable[[], Callable[[], object]], int]] = {
    "cat": (lambda: joins(tt.cat, (4, 3), (7, 3)), 1),
    "cat of columns": (lambda: joins(lambda t: tt.cat(t, 1), (4, 3), (4, 8)), 1),
    "cat of three": (lambda: joins(lambda t: tt.cat(t[:3]), (4, 3)), 1),
    "stack": (lambda: joins(tt.stack, (4, 3)), 1),
    "hstack": (lambda: joins(tt.hstack, (4, 3), (4, 5)), 1),
    "sum": (lambda: on_many(lambda x: x.sum()), 1),
    "mean": (lambda: on_many(lambda x: x.mean()), 1),
    "norm": (lambda: on_many(lambda x: x.norm()), 1),
    "sum of columns": (lambda: on_many(lambda x: x.view(-1, 64).sum(0)), 1),
    "sum of few long rows": (lambda: on_many(lambda x: x.view(4, -1).sum(1)), 1),
    "largest": (lambda: on_many(lambda x: x.max()), 1),
    "whether any": (lambda: on_many(lambda x: x.any()), 1),
    "where the largest is": (lambda: on_many(lambda x: x.argmax()), 1),
    "largest of columns": (lambda: on_many(lambda x: x.view(-1, 64).max(0)), 1),
    "both extremes": (lambda: on_many(lambda x: tt.aminmax(x)), 1),
    "logsumexp": (lambda: on_many(lambda x: x.logsumexp(0)), 1),
    "mse_loss": (lambda: on_many(lambda x: tt.nn.functional.mse_loss(x, x)), 1),
    "gradient of chunks": (lambda: parts_backward(lambda x: x.chunk(100)), 1),
    "gradient of unbind": (lambda: parts_backward(lambda x: x.unbind(1)), 1),
    "var": (lambda: on_many(lambda x: x.var()), 1),
    "std and mean of few columns": (lambda: on_many(lambda x: tt.std_mean(x.view(-1, 64), 0)), 1),
    "var of complex numbers": (lambda: on_many(lambda x: x.var(), tt.complex64), 1),
    "std of short complex rows": (lambda: on_many(lambda x: x.view(-1, 64).std(1), tt.complex64), 1),
    "cat of transposed ones": (lambda: joins(lambda t: tt.cat([x.t() for x in t]), (4, 3)), 1),
}
"""Each with its launches."""


@WITHOUT_CODE
@pytest.mark.parametrize("name", PROGRAMS)
def test_launches(standin, name):
    without_code()
    make, expected = PROGRAMS[name]
    calls = settled(standin, make())
    assert {call.name for call in calls} == {"cuLaunchKernel"}
    assert len(calls) == expected


@WITHOUT_CODE
def test_few_tensors_elsewhere_move_no_table(standin):
    without_code()
    kept = []

    def program():
        kept.append(tt.cat([tt.empty(1000, device="cuda") for _ in range(3)]))

    assert [call.name for call in settled(standin, program)] == ["cuLaunchKernel"]


@WITHOUT_CODE
@pytest.mark.parametrize(
    ("dtype", "digits"), [(tt.int32, 4), (tt.float32, 4), (tt.bfloat16, 2), (tt.int64, 8)]
)
def test_a_sort_counts_once_and_sweeps_for_each_digit(standin, dtype, digits):
    without_code()
    calls = settled(standin, on_many(lambda x: x.sort(), dtype))
    assert [call.name for call in calls] == [
        "cuMemsetD8Async", "cuLaunchKernel", *["cuLaunchKernelEx"] * digits
    ]  # fmt: skip
    assert [call["function"] for call in calls[1:]] == ["count_every_digit", *["sweep_by_digit"] * digits]
