"""Launches of a user's Triton kernel in graphs: `tt.compile`, `tt.export`, `make_graph`, fake kernels."""

import io
import pickle
from typing import Any, NamedTuple

import pytest
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import triten as tt
from triten.dispatch.custom_ops.triton_launch import NAME
from triten.func import functionalize, make_graph
from triten.library import opcheck, wrap_triton
from triten.runtime.cuda.triton.written_pointers import written_parameters
from triten.utils._python_dispatch import TensorDispatchMode
from triten.utils._pytree import tree_leaves


@triton.jit
def add_kernel(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = i < n
    tl.store(out + i, tl.load(x + i, mask=mask, other=0) + tl.load(y + i, mask=mask, other=0), mask=mask)


@triton.autotune([triton.Config({"BLOCK": 16}), triton.Config({"BLOCK": 32}, num_warps=2)], key=["n"])
@triton.jit
def tuned_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n, other=0) * 3, mask=i < n)


@triton.heuristics({"BLOCK": lambda given: 64 if given["n"] > 40 else 32})
@triton.jit
def heuristic_kernel(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n, other=0) + BLOCK * 0 + 1, mask=i < n)


@triton.jit
def descriptor_kernel(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK
    out.store([i], x.load([i]) * 2)


@triton.jit
def strided_kernel(x, stride, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i * stride, tl.load(x + i * stride, mask=i < n, other=0) + 1, mask=i < n)


class Pointers(NamedTuple):
    x: Any
    out: Any


@triton.jit
def store(pointer, value, mask):
    tl.store(pointer, value, mask=mask)


@triton.jit
def named_kernel(pointers, n, STORE: tl.constexpr, SCALE=1.0, BLOCK: tl.constexpr = 16):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    STORE(pointers.out + i, tl.load(pointers.x + i, mask=i < n, other=0) * SCALE, i < n)


@triton.jit
def running_kernel(x, out, n):
    for i in range(n - 1):
        tl.store(out + i + 1, tl.load(x + i) + 1)


def fill_y(arguments):
    arguments["y"].fill_(9)


@triton.autotune([triton.Config({"BLOCK": 16}, pre_hook=fill_y)], key=["n"])
@triton.jit
def hooked_kernel(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n, other=0) + tl.load(y + i, mask=i < n, other=0), mask=i < n)


@triton.jit
def printing_kernel(n):
    tl.device_print("printed", n)


@triton.jit
def indirect_kernel(table):
    pointer = tl.load(table).to(tl.pointer_type(tl.float32))
    tl.store(pointer, tl.load(pointer) + 1)


def add(x, y):
    out = tt.empty_like(x)
    n = x.numel()
    add_kernel[(triton.cdiv(n, 16),)](x, y, out, n, BLOCK=16)
    return out * 2


def by_run(x, y):
    out, tripled = tt.empty_like(x), tt.empty_like(x)
    n = x.numel()
    add_kernel.run(x, y, out, n, BLOCK=16, grid=(triton.cdiv(n, 16),), warmup=False)
    tuned_kernel.run(out, tripled, n, grid=lambda meta: (triton.cdiv(n, meta["BLOCK"]),), warmup=False)
    heuristic_kernel.run(tripled, out, n=n, grid=lambda meta: (triton.cdiv(n, meta["BLOCK"]),), warmup=False)
    return out * 2


def add_wrapped(x, y):
    out = tt.empty_like(x)
    n = x.numel()
    wrap_triton(add_kernel)[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, y, out, n, BLOCK=16)
    return out + y


def tuned(x, y):
    out = tt.empty_like(x)
    n = x.numel()
    tuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
    return out + y


def tuned_wrapped(x, y):
    out = tt.empty_like(x)
    n = x.numel()
    wrap_triton(tuned_kernel)[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
    return out - y


def heuristic(x, y):
    out = tt.empty_like(x)
    n = x.numel()
    heuristic_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
    return out + y


def twice_into_one_tensor(x, y):
    out = x + 1
    n = x.numel()
    add_kernel[(triton.cdiv(n, 16),)](out, y, out, n, BLOCK=16)
    add_kernel[(triton.cdiv(n, 16),)](out, out, out, n, BLOCK=16)
    return out


def into_an_argument(x, y):
    n = x.numel()
    add_kernel[(triton.cdiv(n, 16),)](x, y, y, n, BLOCK=16)
    return y.sum()


def into_a_view(x, y):
    z = x.clone()
    strided_kernel[(1,)](z[::2], 2, (z.numel() + 1) // 2, BLOCK=64)
    return z + y


def descriptors(x, y):
    out = tt.zeros_like(x)
    block = [16]
    n = x.numel()
    read = TensorDescriptor(x, [n], [1], block)
    write = TensorDescriptor(out, [n], [1], block)
    descriptor_kernel[(triton.cdiv(n, 16),)](read, write, BLOCK=16)
    return out + y


def of_a_named_tuple(x, y):
    out, other = tt.empty_like(x), tt.empty_like(x)
    for scale, each in ((0.0, out), (-0.0, other)):
        grid = lambda meta: [triton.cdiv(meta["n"], meta["BLOCK"])]  # noqa: E731
        named_kernel[grid](Pointers(x, each), n=x.numel(), STORE=store, SCALE=scale)
    return 1 / out, 1 / other


def of_reinterpreted_tensors(x, y):
    out = tt.empty_like(x)
    words = [triton.reinterpret(each.view(tt.int32), tl.float32) for each in (x, out)]
    add_kernel[(triton.cdiv(x.numel(), 16),)](words[0], y, words[1], x.numel(), BLOCK=16)
    return out


def of_equal_operands(x, y):
    read, written = tt.zeros_like(x), tt.zeros_like(x)
    running_kernel[(1,)](read, written, x.numel())
    copy = x.clone()
    running_kernel[(1,)](x, copy, x.numel())
    ones, others = tt.ones_like(x), tt.ones_like(x)
    running_kernel[(1,)](ones[1:], others, x.numel() - 1)
    return read, written, copy, others


def of_overlapping_views(x, y):
    z = x * 2
    a, b = z[1:], z[:-1]
    for read, written in ((a, b), (b, a), (z, z), (z.view(tt.int32), b)):
        running_kernel[(1,)](read, written, x.numel() // 2)
    return z, a + 1, b + 1


def of_overlapping_arguments(x, y):
    n = x.numel()
    running_kernel[(1,)](x[n // 4 :], x[n // 2 :], n // 2)
    return x * 2


def beyond_a_view(x, y):
    n = x.numel()
    z = tt.zeros(2, n, device=x.device)
    add_kernel[(triton.cdiv(2 * n, 16),)](z[0], z[0], z[0], 2 * n, BLOCK=16)
    strided_kernel[(1,)](z.t()[1:], 1, n, BLOCK=128)
    return z


def by_a_hook(x, y):
    out = tt.empty_like(x)
    hooked_kernel[(triton.cdiv(x.numel(), 16),)](x, y, out, x.numel())
    return out + y


def of_no_programs(x, y):
    out = tt.ones_like(x)
    add_kernel[(0,)](x, y, out, x.numel(), BLOCK=16)
    return out


PROGRAMS = [
    add, add_wrapped, tuned, tuned_wrapped, heuristic, twice_into_one_tensor, into_an_argument, into_a_view,
    descriptors, of_a_named_tuple, of_reinterpreted_tensors, of_equal_operands, of_overlapping_views,
    of_overlapping_arguments, beyond_a_view, by_a_hook, of_no_programs, by_run,
]  # fmt: skip


def arguments(n):
    return tt.arange(float(n), device="cuda"), tt.ones(n, device="cuda")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_a_launch_is_captured_in_one_graph(program):
    compiled = tt.compile(program, fullgraph=True)
    for n in (40, 40, 48, 77, 16):
        expected_arguments, given = arguments(n), arguments(n)
        expected = tree_leaves(program(*expected_arguments))
        assert all(tt.equal(a, b) for a, b in zip(tree_leaves(compiled(*given)), expected, strict=True))
        assert all(tt.equal(a, b) for a, b in zip(given, expected_arguments, strict=True))


@pytest.mark.parametrize("tracing_mode", ["real", "fake"])
@pytest.mark.parametrize("transform", [functionalize, lambda f: f], ids=["functional", "plain"])
@pytest.mark.parametrize("program", [add, of_equal_operands, beyond_a_view], ids=lambda f: f.__name__)
def test_make_graph_records_launches(program, transform, tracing_mode):
    x, y = arguments(40)
    graph = make_graph(transform(program), tracing_mode)(x, y)
    expected = tree_leaves(program(x * 2, y))
    assert all(tt.equal(a, b) for a, b in zip(tree_leaves(graph(x * 2, y)), expected, strict=True))


@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
@pytest.mark.parametrize("program", [add, of_overlapping_views, beyond_a_view], ids=lambda f: f.__name__)
def test_functionalize_takes_launches(program, remove):
    x, y = arguments(40)
    expected = tree_leaves(program(x, y))
    found = tree_leaves(functionalize(program, remove=remove)(x, y))
    assert all(tt.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_launches_with_other_effects_are_neither_dropped_nor_merged(capfd):
    places = tt.zeros(4, device="cuda")
    table = tt.tensor([places.data_ptr()], dtype=tt.int64, device="cuda")

    def program(x):
        for _ in range(2):
            printing_kernel[(1,)](x.numel())
            indirect_kernel[(1,)](table + 0)
        return x + 1

    x = tt.ones(40, device="cuda")
    assert tt.equal(tt.compile(program, fullgraph=True)(x), x + 1)
    assert places.tolist() == [2, 0, 0, 0]
    assert capfd.readouterr().out.count("printed") == 2


def test_a_fake_kernel_makes_no_launch_without_tensors(capfd):
    @tt.library.triton_op("captured_launches::printed", mutates_args=())
    def printed(x: tt.Tensor) -> tt.Tensor:
        printing_kernel[(1,)](3)
        wrap_triton(printing_kernel)[(1,)](3)
        return x + 1

    printed(tt.ones(3, device="meta"))
    tt.cuda.synchronize()
    assert not capfd.readouterr().out


def test_a_captured_launch_writes_without_clones(launches):
    compiled = tt.compile(lambda x, y: add(x, y), fullgraph=True)
    x, y = arguments(40)
    compiled(x, y)
    before = launches.count
    compiled(x, y)
    assert launches.count - before == 2  # the kernel and the multiplication


def test_a_captured_launch_writes_a_part_without_clones(launches):
    def program(x, y):
        out = tt.empty(2, x.numel(), device=x.device)
        for row in out:
            add_kernel[(triton.cdiv(x.numel(), 16),)](x, y, row, x.numel(), BLOCK=16)
        return out * 2

    compiled = tt.compile(program, fullgraph=True)
    x, y = arguments(40)
    assert tt.equal(compiled(x, y), program(x, y))
    before = launches.count
    compiled(x, y)
    assert launches.count - before == 3  # the kernels and the multiplication


def test_a_graph_holds_the_launch_as_one_step():
    graph = make_graph(functionalize(add_wrapped), tracing_mode="fake")(*arguments(20)).graph
    names = [
        node.target.name()
        for node in graph.find_nodes(op="call_function")
        if not isinstance(node.target, str) and hasattr(node.target, "name")
    ]
    assert f"{NAME}_functional" in names
    with pytest.raises(NotImplementedError, match="launches a Triton kernel of this process"):
        pickle.dumps(graph)


def test_modes_see_a_wrapped_launch():
    seen = []

    class Mode(TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func.name())
            return func(*args, **(kwargs or {}))

    x, y = arguments(20)
    with Mode():
        result = add_wrapped(x, y)
    assert NAME in seen
    assert tt.equal(result, x + 2)


def test_gradients_flow_around_a_launch():
    class Add(tt.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            out = tt.empty_like(x)
            add_kernel[(triton.cdiv(x.numel(), 16),)](x, y, out, x.numel(), BLOCK=16)
            return out

        @staticmethod
        def backward(ctx, grad):
            return grad, grad

    def program(x, y):
        return (Add.apply(x, y) * x).sum()

    grads = []
    for function in (program, tt.compile(program)):
        x = tt.arange(20.0, device="cuda", requires_grad=True)
        y = tt.ones(20, device="cuda", requires_grad=True)
        function(x, y).backward()
        grads.append((x.grad, y.grad))
    assert all(tt.equal(a, b) for a, b in zip(*grads, strict=True))


def test_an_exported_launch_runs_and_cannot_be_saved():
    class Program(tt.nn.Module):
        def forward(self, x, y):
            return add(x, y)

    x, y = arguments(20)
    exported = tt.export.export(Program(), (x, y))
    assert tt.equal(exported.module()(x, y), (x + y) * 2)
    with pytest.raises(NotImplementedError, match=r"triten\.library\.triton_op"):
        tt.export.save(exported, io.BytesIO())


@pytest.fixture
def scaled():
    @tt.library.triton_op("captured_launches::scaled", mutates_args=())
    def scaled(x: tt.Tensor) -> tt.Tensor:
        out = tt.empty_like(x)
        n = x.numel()
        wrap_triton(tuned_kernel)[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n)
        return out

    return scaled


def test_the_fake_kernel_of_a_triton_op_is_derived(scaled):
    made = scaled(tt.ones(3, 4, device="meta"))
    assert (made.shape, made.device) == ((3, 4), tt.device("meta"))
    assert set(opcheck(scaled, (tt.ones(5, device="cuda"),)).values()) == {"SUCCESS"}
    compiled = tt.compile(lambda x: scaled(x) + 1, fullgraph=True)
    assert compiled(tt.ones(5, device="cuda")).tolist() == [4.0] * 5


def test_a_custom_operator_that_writes_is_captured():
    @tt.library.custom_op("captured_launches::bump", mutates_args=("x", "optional", "several"))
    def bump(x: tt.Tensor, optional: tt.Tensor | None, several: list[tt.Tensor]) -> None:
        for each in (x, *several, *(() if optional is None else (optional,))):
            each.add_(1)

    def program(x, y):
        z = x.clone()
        bump(z[::2], None, [y, z[1:3]])
        bump(y, z, [])
        return z

    compiled = tt.compile(program, fullgraph=True)
    for device in ("cpu", "cuda"):
        x, y, other = tt.arange(8.0, device=device), tt.ones(8, device=device), tt.ones(8, device=device)
        assert tt.equal(compiled(x, y), program(x, other))
        assert tt.equal(y, other)


def test_a_custom_operator_may_be_given_nothing_to_write():
    @tt.library.custom_op("captured_launches::count", mutates_args=("several", "optional"))
    def count(several: list[tt.Tensor], optional: tt.Tensor | None) -> None:
        for i, each in enumerate([*several, *(() if optional is None else (optional,))]):
            each.add_(i + 1)

    def program(x):
        z = x.clone()
        count([], None)
        count([z, z, z[1:]], z[::3])
        count([], z)
        return z

    x = tt.arange(8.0)
    assert tt.equal(tt.compile(program, fullgraph=True)(x), program(x))


def test_a_launch_that_cannot_be_captured_breaks_the_graph():
    def program(x, y):
        out = tt.empty_like(x)
        address = x.data_ptr()
        add_kernel[(triton.cdiv(x.numel(), 16),)](x, y, out, x.numel(), BLOCK=16)
        return out + (address != x.data_ptr())

    x, y = arguments(20)
    with pytest.raises(tt.compiler.Unsupported, match=r"data_ptr\(\)"):
        tt.compile(program, fullgraph=True)(x, y)
    assert tt.equal(tt.compile(program)(x, y), x + y)
    tt.cuda.synchronize()


def test_a_warm_up_launches_nothing_and_takes_part_in_no_graph():
    def program(x, y):
        add_kernel.run(y, y, y, y.numel(), BLOCK=16, grid=(1,), warmup=True)
        return x + y

    x, y = arguments(20)
    assert tt.equal(tt.compile(program)(x, y), x + 1)
    assert tt.equal(y, tt.ones(20, device="cuda"))


@triton.jit
def helper(pointer, value, n):
    tl.atomic_add(pointer + n, value)


@triton.jit
def several_kernel(a, b, c, d, e, n, FLAG: tl.constexpr):
    moved = a + n
    value = tl.load(b + n)
    if FLAG:
        moved += 1
    tl.store(moved, value)
    helper(c, value, n)
    block = tl.make_block_ptr(d, (n,), (1,), (0,), (16,), (0,))
    tl.store(tl.advance(block, [4]), value)
    for _ in range(3):
        value += tl.load(e)


def test_written_parameters_are_read_off_the_source():
    assert written_parameters(several_kernel) & set("abcde") == {"a", "c", "d"}
    assert "out" in written_parameters(descriptor_kernel)
    assert "x" not in written_parameters(descriptor_kernel)
