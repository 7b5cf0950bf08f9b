"""Kernels of many operands are split at a bound and bitwise identical to eager.

Threads that share a loop reject them.
"""

from __future__ import annotations

import io
import platform
import sys
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten import nn
from triten.compiler.host import cut_kernels, tiled_loops
from triten.compiler.operand_limit import MAX_OPERANDS, bounded_runs
from triten.compiler.schedule import FusedKernel, RowsKernel, fused_schedule
from triten.runtime.cpu import task_pool
from triten.runtime.cpu.calling_convention import HEADER, python_call
from triten.runtime.cpu.code import Code
from triten.runtime.cpu.loop_requests import Sharing
from triten.runtime.cpu.object_code import loop_function
from triten.runtime.cpu.task_pool_source import FUTEX, MAX_POINTERS
from triten.tests.compiled_code import needs_llvm
from triten.tests.compiler.beside_eager import agree, drawn, same

F = nn.functional
SHAPE = (64, 256)
"""Elements that four threads share."""


def total(*given: tt.Tensor) -> tt.Tensor:
    return reduce(tt.add, given)


def rows(*given: tt.Tensor) -> tt.Tensor:
    return total(*given).softmax(-1)


def columns(*given: tt.Tensor) -> tuple[tt.Tensor, tt.Tensor]:
    product = reduce(lambda a, b: a + b * 0.5, given)
    return product.sum(0), product.relu()


def neighbours(*given: tt.Tensor) -> list[tt.Tensor]:
    return [a * b + 1 for a, b in zip(given, (*given[1:], given[0]), strict=True)]


def dropped(*given: tt.Tensor) -> tt.Tensor:
    return F.dropout(total(*given), 0.25) * given[0]


def picked(*given: tt.Tensor) -> tt.Tensor:
    numbers = given[0].long().remainder(SHAPE[1])
    return total(*[x.gather(1, numbers) for x in given])


def joined(*given: tt.Tensor) -> tt.Tensor:
    first, second = total(*given), given[-1].sin()
    return tt.cat([first, second], 1) * 2


def sines(*given: tt.Tensor) -> tt.Tensor:
    return total(*given).sin()


FUNCTIONS = (total, rows, columns, neighbours, dropped, picked, joined, sines)


def tensors(count: int, shape: tuple[int, ...] = SHAPE, grad: bool = False) -> tuple[tt.Tensor, ...]:
    numbers = np.random.default_rng(count).standard_normal((count, *shape)).astype(np.float32)
    return tuple([tt.tensor(each).requires_grad_(grad) for each in numbers])


@pytest.mark.parametrize(
    ("function", "count"),
    [*((f, n) for f in FUNCTIONS for n in (65, 200)), *((total, n) for n in (1, 63, 64))],
)
def test_inputs(function: Callable[..., Any], count: int) -> None:
    agree(function, lambda: tensors(count), calls=1)


@pytest.mark.parametrize("count", [1, 2, 59, 60, 61, 100])
def test_outputs(count: int) -> None:
    agree(lambda x: [x * (i + 1) - 0.5 for i in range(count)], lambda: tensors(1), calls=1)


@pytest.mark.parametrize("count", [65, 200])
@pytest.mark.parametrize("function", [total, rows, sines])
def test_gradients(function: Callable[..., tt.Tensor], count: int) -> None:
    given, own = tensors(count, grad=True), tensors(count, grad=True)
    (function(*[x * 0.5 for x in given]) * given[0]).sum().backward()
    tt.compile(lambda *xs: (function(*[x * 0.5 for x in xs]) * xs[0]).sum(), fullgraph=True)(*own).backward()
    same([x.grad for x in own], [x.grad for x in given])


def test_a_program_of_many_inputs_from_a_file() -> None:
    class Total(nn.Module):
        def forward(self, *given: tt.Tensor) -> tt.Tensor:
            return total(*given)

    given, file = tensors(80), io.BytesIO()
    tt.export.save(tt.export.export(Total(), given), file)
    file.seek(0)
    with tt.no_grad():
        same(tt.export.load(file).module()(*given), total(*given))


@pytest.mark.parametrize("count", [1, 65])
def test_64_dimensions(count: int) -> None:
    sizes = tuple([2 if d % 7 == 0 else 1 for d in range(64)])

    def turned(*given: tt.Tensor) -> tt.Tensor:
        return total(*[x.permute(*reversed(range(64))) for x in given]) * given[0]

    agree(turned, lambda: tuple([x.view(sizes) for x in tensors(count, (1 << 10,))]), calls=1)


def test_many_numbers_on_each_device(device: str) -> None:
    agree(total, lambda: tuple([drawn(5, device=device, seed=i) for i in range(130)]), calls=1)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_kernels_are_bounded(function: Callable[..., Any]) -> None:
    traced = tt.func.make_graph(function)(*tensors(200, (4, 6)) if function is not picked else tensors(200))
    schedule = fused_schedule(traced.graph)
    schedule.check()
    assert schedule.kernels
    assert all(len(k.inputs) + len(k.outputs) <= MAX_OPERANDS for k in schedule.kernels)


def test_parts_of_a_kernel_that_is_cut_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[FusedKernel | RowsKernel] = []
    cut = cut_kernels._part
    monkeypatch.setattr("triten.compiler.schedule.MAX_POINTWISE", 1000)  # so that one kernel has all of it
    monkeypatch.setattr(tiled_loops, "tiled_program", lambda kernel: None)  # no loop has dropout
    monkeypatch.setattr(cut_kernels, "_part", lambda *given: parts.append(made := cut(*given)) or made)

    def wide(x: tt.Tensor) -> tt.Tensor:
        values = [x * (i + 1) for i in range(100)]
        return total(*values, F.dropout(total(*values), 0.5), *values)

    agree(wide, lambda: tensors(1), calls=1)
    assert len(parts) > 2
    assert all(len(part.inputs) + len(part.outputs) <= MAX_OPERANDS for part in parts)


def test_a_run_ends_where_the_next_step_would_exceed_the_bound() -> None:
    graph = tt.func.make_graph(neighbours)(*tensors(200, (3,))).graph
    nodes = graph.find_nodes(op="call_function")
    runs = bounded_runs(nodes)
    assert [node for run in runs for node in run] == nodes
    for run, following in zip(runs, [*runs[1:], []], strict=True):
        for count, holds in ((0, True), (1, not following)):
            members = {*run, *following[:count]}
            given = {n for node in members for n in node.all_input_nodes} - members
            made = [node for node in members if not members.issuperset(node.users)]
            assert (len(given) + len(made) <= MAX_OPERANDS) is holds


@needs_llvm
def test_what_threads_share_refuses_more_arrays_than_it_has_room_for() -> None:
    assert MAX_OPERANDS + 3 <= MAX_POINTERS  # seeds, sums and a workspace
    share = task_pool._share()
    if share is None:
        assert sys.platform != "linux" or platform.machine() not in FUTEX, "a pool of threads is missing"
        pytest.skip("no pool of threads on this machine")
    threads = tt.get_num_threads()
    tt.set_num_threads(2)
    try:
        for count, refused in ((MAX_POINTERS, False), (MAX_POINTERS + 1, True), (500, True)):
            code = Code()
            for j in range(count):
                code.do(f"store i64 {j}, ptr %p{j}")
            given = ", ".join(["ptr %g", *(f"ptr %p{j}" for j in range(count))])
            loop = loop_function(HEADER + code.function("loop", given, "noinline") + python_call(count, 1))
            run = task_pool.shared_loop(loop, [np.zeros(1, np.int64)] * 3, Sharing.WAKING)
            arrays = [np.full(1, -1) for _ in range(count)]
            if refused:
                with pytest.raises(RuntimeError, match="has at most 64 arrays"):
                    run(*arrays)
            else:
                run(*arrays)
            assert [int(a[0]) for a in arrays] == [-1] * count if refused else list(range(count))
    finally:
        tt.set_num_threads(threads)


@needs_llvm
@pytest.mark.parametrize(("num_sources", "num_gathers"), [(1, 40), (22, 1)])
def test_sources_that_are_also_read_in_place_are_two_arrays_each(num_sources: int, num_gathers: int) -> None:
    size = 1 << 16  # threads share the loop

    def gathers(*operands: tt.Tensor) -> tt.Tensor:
        sources, indices = operands[:num_sources], operands[num_sources:]
        made = sources[0]
        for i, index in enumerate(indices):
            source = sources[i % num_sources]
            made = made * 0.5 + source + source.gather(0, index)
        return made

    def operands() -> list[tt.Tensor]:
        indices = [(tt.arange(size) * (2 * i + 1)) % size for i in range(num_sources * num_gathers)]
        return [*tensors(num_sources, (size,)), *indices]

    agree(gathers, operands, calls=1)
