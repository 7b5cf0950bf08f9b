"""Collectives as operators in one process: dispatch, dispatch layers, and graphs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import triten as tt
from triten import distributed as dist
from triten.compiler.passes.waits import read_after_waits
from triten.dispatch.core.dispatcher import Dispatcher
from triten.distributed import _functional_collectives as funcol
from triten.distributed.backends.fake import FakeStore
from triten.distributed.functional_collectives.pending import _Registry, register_work, wait_for
from triten.distributed.functional_collectives.schemas import LEGACY_SCHEMAS, SCHEMAS
from triten.distributed.work import Work

ops: Any = tt.ops._c10d_functional


@pytest.fixture
def alone() -> Iterator[None]:
    dist.init_process_group("mpi", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def eight() -> Iterator[None]:
    dist.init_process_group("fake", store=FakeStore(), rank=2, world_size=8)
    yield
    dist.destroy_process_group()


def test_all_are_known_before_they_are_imported() -> None:
    packets = Dispatcher.singleton().packets
    for namespace, schemas in SCHEMAS.items():
        known = {name.partition("::")[2] for name in packets if name.startswith(f"{namespace}::")}
        assert known == {schema.partition("(")[0] for schema in schemas}
    for schema in LEGACY_SCHEMAS:
        assert f"c10d_functional::{schema.partition('(')[0]}" in packets
    code = (
        "import sys, triten as tt; assert '_c10d_functional' in dir(tt.ops); "
        "assert not any(name.startswith('triten.distributed') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True)


def test_shapes_on_meta(eight: None) -> None:
    x = tt.empty(16, 3, device="meta")
    column = x.t()
    assert ops.all_reduce(column, "sum", "0").is_contiguous()
    assert ops.all_gather_into_tensor(x, 8, "0").shape == (128, 3)
    assert ops.all_gather_into_tensor(tt.empty((), device="meta"), 8, "0").shape == (8,)
    assert ops.reduce_scatter_tensor(x, "sum", 8, "0").shape == (2, 3)
    assert ops.all_to_all_single(x, [1] * 8, [2] * 8, "0").shape == (8, 3)
    assert [each.shape for each in ops.all_gather_into_tensor_coalesced([x, column], 8, "0")] == [
        (128, 3),
        (24, 16),
    ]
    assert ops.all_reduce_(x, "sum", "0") is x
    gathered = funcol.all_gather_single(x, 1, dist.group.WORLD)
    assert gathered.shape == (16, 24) and gathered.is_meta
    assert tt._C is not None and type(funcol.broadcast(x, 0, "0")) is tt.Tensor
    # On the host shapes are the same.
    y = tt.ones(16, 3)
    assert funcol.reduce_scatter_single(y, "avg", 0, "0").shape == (2, 3)
    assert funcol.all_gather_single(y, 1, "0").shape == (16, 24)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda x: ops.all_reduce(x, "mean", "0"), RuntimeError, "Unrecognized reduce_op: mean"),
        (lambda x: ops.all_reduce(x, "sum", "7"), RuntimeError, "registered under the name 7"),
        (lambda x: ops.reduce_scatter_tensor(x, "sum", 3, "0"), RuntimeError, "divisible by group_size 3"),
        (lambda x: ops.reduce_scatter_tensor(x[0, 0], "sum", 1, "0"), RuntimeError, r"got shape \[\]"),
        (lambda x: ops.all_gather_into_tensor(x, 2, "0"), ValueError, "expected 6 elements, but got 12"),
        (lambda x: ops.all_to_all_single(x, [-1], [2], "0"), RuntimeError, "sizes of at least 0"),
        (lambda x: funcol.all_to_all_single(x, [2], None, "0"), AssertionError, "specified together"),
        (lambda x: funcol.all_reduce(x, "sum", 3), ValueError, "Unsupported group type: <class 'int'>"),
        (lambda x: funcol.all_reduce(x, "sum", (3, 0)), ValueError, "Invalid tuple for group"),
        (lambda x: funcol.all_reduce(x, "sum", "nobody's"), RuntimeError, "under the name nobody's"),
        (lambda x: tt.vmap(lambda row: ops.all_reduce(row, "sum", "0"))(x), RuntimeError, "under vmap"),
    ],
)
def test_refusals(alone: None, call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call(tt.ones(2, 3))


def test_derivatives(alone: None) -> None:
    x = tt.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="_c10d_functional::broadcast is not implemented"):
        ops.broadcast(x, 0, "0").sum().backward()
    for reduced in (
        ops.all_reduce(x, "avg", "0"),
        ops.reduce_scatter_tensor(x, "max", 1, "0"),
        ops.all_reduce_coalesced([x], "product", "0")[0],
    ):
        with pytest.raises(RuntimeError, match="backward only supports 'sum' reduction, got"):
            reduced.sum().backward()
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        ops.all_reduce_(x, "sum", "0")
    own = tt.ops._c10d_functional_autograd
    for result in (
        own.all_gather_into_tensor(x, 1, "0"),
        own.reduce_scatter_tensor(x, "sum", 1, "0"),
        own.all_to_all_single(x, [3], [3], "0"),
    ):
        (grad,) = tt.autograd.grad(ops.wait_tensor(result * 2).sum(), x)
        assert grad.tolist() == [2.0] * 3
    _, tangent = tt.func.jvp(lambda a: ops.all_reduce(a * 2, "sum", "0"), (x.detach(),), (tt.ones(3),))
    assert tangent.tolist() == [2.0] * 3


def test_groups_by_other_names(alone: None) -> None:
    class Mesh:
        ndim = 2

        def get_group(self, dim: int) -> dist.ProcessGroup | None:
            return dist.group.WORLD if dim == 1 else None

    x = tt.ones(2)
    assert funcol.all_reduce(x, "sum", (Mesh(), 1)).tolist() == [1.0, 1.0]
    with pytest.raises(AssertionError, match="Only 1D mesh is supported"):
        funcol.all_reduce(x, "sum", Mesh())
    for ranks in ([0], [[0]]):
        with pytest.warns(FutureWarning, match="has been deprecated"):
            assert funcol.all_reduce(x, "sum", ranks).tolist() == [1.0, 1.0]
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match=r"no process group of ranks \[0, 1\]"):
        funcol.all_reduce(x, "sum", [0, 1])


def reduced_in_place(x: tt.Tensor) -> tt.Tensor:
    double = x * 2
    ops.all_reduce_(double, "sum", "0")
    ops.wait_tensor(double)
    return double + 1


def test_layers_see_them(alone: None) -> None:
    seen = []

    class Log(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func.name())
            return func(*args, **(kwargs or {}))

    x = tt.ones(2)
    with Log():
        reduced_in_place(x)
    assert seen == [
        "aten::mul.Tensor",
        "_c10d_functional::all_reduce_",
        "_c10d_functional::wait_tensor",
        "aten::add.Tensor",
    ]
    with tt.profiler.profile() as profile:
        funcol.all_reduce(x, "sum", "0").wait()
    names = {event.key for event in profile.key_averages()}
    assert {"_c10d_functional::all_reduce", "_c10d_functional::wait_tensor"} <= names
    # A traced collective waits at once and leaves no pending tensor.
    for mode in ("real", "fake"):
        traced = tt.func.make_graph(lambda a: funcol.all_reduce(a, "sum", "0") * 2, mode)(x)
        assert [node.target.name() for node in traced.graph.find_nodes(op="call_function")] == [
            "_c10d_functional::all_reduce",
            "_c10d_functional::wait_tensor",
            "aten::mul.Tensor",
        ]
        assert type(traced(x)) is tt.Tensor
    functional = tt.func.make_graph(tt.func.functionalize(reduced_in_place))(x)
    targets = [node.target.name() for node in functional.graph.find_nodes(op="call_function")]
    assert targets[1:3] == ["_c10d_functional::all_reduce", "_c10d_functional::wait_tensor"]
    functional.graph.eliminate_dead_code()
    assert len(functional.graph.find_nodes(op="call_function")) == 5


def test_readers_come_after_the_wait(alone: None) -> None:
    def f(x: tt.Tensor) -> Any:
        reduced = ops.all_reduce(x, "sum", "0")
        early, view = reduced.view(2, 2) + 0, reduced.view(-1)[1:]
        ops.wait_tensor(view)
        return reduced.exp(), view.exp(), early

    x = tt.arange(4.0)
    traced = tt.func.make_graph(f)(x)
    assert read_after_waits(traced.graph)
    traced.graph.lint()
    traced.graph.eliminate_dead_code()
    assert str(traced.graph) == (
        "graph(%x : float32[4]):\n"
        "    %all_reduce : float32[4] = _c10d_functional.all_reduce(%x, 'sum', '0')\n"
        "    %view : float32[2, 2] = aten.view(%all_reduce, [2, 2])\n"
        "    %add : float32[2, 2] = aten.add.Tensor(%view, 0)\n"
        "    %wait_tensor_1 : float32[4] = _c10d_functional.wait_tensor(%all_reduce)\n"
        "    %view_3 : float32[4] = aten.view(%wait_tensor_1, [-1])\n"
        "    %slice_2 : float32[3] = aten.slice.Tensor(%view_3, 0, 1)\n"
        "    %exp : float32[4] = aten.exp(%view_3)\n"
        "    %exp_1 : float32[3] = aten.exp(%slice_2)\n"
        "    return [%exp, %exp_1, %add]"
    )
    traced.recompile()
    for one, other in zip(traced(x), f(x), strict=True):
        assert tt.equal(one, other)
    assert not read_after_waits(traced.graph)


class _Ended(Work):
    def __init__(self, results: Any, ended: bool = True) -> None:
        super().__init__(results)
        self.ended, self.waits = ended, 0

    def wait(self, timeout: Any = None) -> bool:
        self.waits += 1
        return True

    def is_completed(self) -> bool:
        return self.ended


def test_works_are_found_by_memory() -> None:
    x = tt.ones(4, 2)
    first, second = _Ended([x]), _Ended([x])
    register_work(x, first)
    register_work(x.t(), second)
    wait_for(x[1:].view(-1)[1:])
    assert first.waits == second.waits == 1
    wait_for(x)
    assert first.waits == 1


def test_works_that_ended_are_let_go() -> None:
    registry = _Registry()
    under_way = _Ended([tt.ones(1)], ended=False)
    registry.add(under_way.result()[0], under_way)
    works = [_Ended([tt.ones(1)]) for _ in range(64)]
    for work in works:
        registry.add(work.result()[0], work)
    assert len(registry.by_root) == 1
    assert registry.take(under_way.result()[0]) == [under_way]


def test_the_older_namespace_names_groups_by_ranks(alone: None) -> None:
    legacy, x = tt.ops.c10d_functional, tt.arange(4.0)
    group = ("", [0], 1)
    for made in (
        legacy.all_reduce(x, "sum", *group),
        legacy.all_reduce_coalesced([x], "sum", *group)[0],
        legacy.all_gather_into_tensor(x, *group),
        legacy.reduce_scatter_tensor(x, "sum", *group),
        legacy.all_to_all_single(x, None, None, *group),
        legacy.broadcast(x, 0, *group),
    ):
        assert tt.equal(legacy.wait_tensor(made), x)
    with pytest.raises(ValueError, match="no process group of ranks"):
        legacy.all_reduce(x, "sum", "", [0, 1], 2)


def test_scatter_and_wrapping_are_operators(alone: None) -> None:
    out = tt.zeros(2)
    outputs, work = tt.ops.c10d.scatter_([out], [[tt.ones(2)]], dist.group.WORLD, 0)
    work.wait()
    assert outputs[0] is out and out.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="expected 1 output tensor, but got 2"):
        tt.ops.c10d.scatter_([out, out], [], dist.group.WORLD, 0)
    x = tt.ones(2, requires_grad=True)
    wrapped = ops._wrap_tensor_autograd(x * 2)
    assert type(wrapped) is funcol.AsyncCollectiveTensor
    assert tt.autograd.grad(wrapped.sum(), x)[0].tolist() == [2, 2]
