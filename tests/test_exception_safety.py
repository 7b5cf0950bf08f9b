# ruff: noqa: E402 - nothing of this file runs where Triton has no wheel
"""An error inside any layer leaves operands, versions, autograd histories and the thread's state unchanged.

The tests inject an error into each layer in turn: into kernels through the recorders that surround them, into
other layers by registration.
"""

import gc
import io
import os
import threading
from contextlib import ExitStack, contextmanager, suppress

import numpy as np
import pytest

triton = pytest.importorskip("triton", reason="triton has no wheel for this platform")

import triton.language as tl

import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.core.kernel_function import KernelFunction
from triten.dispatch.core.operator_entry import observers
from triten.dispatch.layers import python_key
from triten.dispatch.layers.profiler import session as profile_session
from triten.dispatch.structured.stub import recorders
from triten.runtime import parallel
from triten.runtime.allocator import HostAllocator, get_allocator, set_allocator
from triten.runtime.cuda.driver import driver
from triten.runtime.cuda.memory.caching_allocator import CUDA_ALLOCATOR
from triten.runtime.cuda.memory.inspection import nested_stats
from triten.runtime.cuda.transfer import copy_across
from triten.runtime.data_ptr import DataPtr
from triten.runtime.dispatch_key import Functionality, functionality_bit
from triten.runtime.local_dispatch_key_set import (
    ExcludeDispatchKeyGuard,
    IncludeDispatchKeyGuard,
    local,
    modes,
)
from triten.tests.shared.thread_state import thread_state
from triten.tests.shared.threads import PATIENCE, join

TRACER = functionality_bit(Functionality.Tracer)
LAST = driver().device_count() - 1
"""A device, another one than the current where there are several."""


class Fault(Exception):
    """The tests' own error, which the package neither catches nor confuses with its own."""


def fault(*_, **__):
    raise Fault("here")


def bytes_of(data):
    """Return a tensor's bytes and the bytes behind it in its memory, read without an operator."""
    if isinstance(data, np.ndarray):
        return data.tobytes()
    if data.device.type == "meta":
        return b""
    held = np.empty(data.nbytes, np.uint8)
    copy_across(held, data, data.nbytes)
    return held.tobytes()


def tensor_state(tensor, values=True):
    """Return a tensor's bytes, metadata, version and history."""
    meta = tensor._autograd
    return {
        "values": bytes_of(tensor._data) if values else None,
        "data": tensor._data,
        "spec": tensor._spec,
        "version": 0 if tensor.is_inference() else tensor.current_version(),
        "base": tensor._view_base,
        "grad": None if meta is None or meta.grad is None else bytes_of(meta.grad._data),
        "origin": tensor.grad_fn,
        "hooks": None if tensor.grad_fn is None else tensor.grad_fn.hooks,
    }


@contextmanager
def untouched(*tensors, error=Fault, match="here", values=True):
    """Check that the block raises and leaves the thread and the tensors unchanged."""
    before = [tensor_state(t, values) for t in tensors]
    state = thread_state()
    with pytest.raises(error, match=match):
        yield
    assert thread_state() == state
    for tensor, expected in zip(tensors, before, strict=True):
        assert tensor_state(tensor, values) == expected


@contextmanager
def failing_kernels(at=0, after=False, name=""):
    """Fail kernels with this name prefix from call `at` on, before or after they compute."""
    calls = [0]

    def surround(kernel, dtype, function):
        if not kernel.startswith(name):
            return function

        def failing(*data):
            calls[0] += 1
            if calls[0] <= at:
                return function(*data)
            if after:
                function(*data)
            raise Fault(f"here, in {kernel}")

        return failing

    recorders.append(surround)
    Dispatcher.singleton().forget_all()
    try:
        yield calls
    finally:
        recorders.remove(surround)
        Dispatcher.singleton().forget_all()


@pytest.fixture
def library(request):
    """Yield a library of the test's own namespace, and its operators."""
    name = request.function.__name__
    with tt.library.Library(name, "DEF") as lib:
        yield lib, getattr(tt.ops, name)


@pytest.fixture(autouse=True)
def nothing_is_left():
    driver()
    before = (thread_state(), list(modes), list(observers), list(recorders))
    yield
    assert (thread_state(), modes, observers, recorders) == before


def matrix(device, grad=False):
    x = tt.tensor([[1.0, 2.0], [3.0, 5.0]], device=device)
    return x.requires_grad_() if grad else x


# --- kernels, on each device, in each form

FUNCTIONAL = {
    "add": lambda a, b: a + b,
    "scaled add": lambda a, b: tt.add(a, b, alpha=2.5),
    "number": lambda a, b: a * 2.0,
    "mm": lambda a, b: a @ b,
    "sum": lambda a, b: a.sum(),
    "several results": lambda a, b: tt.max(b, 0),
    "cat": lambda a, b: tt.cat([a, b]),
    "softmax": lambda a, b: a.softmax(0),
    "where": lambda a, b: tt.where(b > 2, a, b),
    "composite": lambda a, b: tt.nn.functional.linear(a, b),
    "copy": lambda a, b: a.clone(),
    "conversion": lambda a, b: a.to(tt.float64),
    "factory": lambda a, b: tt.randn_like(a),
}


@pytest.mark.parametrize("grad", [False, True], ids=["plain", "grad"])
@pytest.mark.parametrize("name", FUNCTIONAL)
def test_a_kernel_that_fails(device, name, grad):
    a, b = matrix(device, grad), matrix(device, grad)
    call = FUNCTIONAL[name]
    with failing_kernels() as calls, untouched(a, b):
        call(a, b)
    assert calls[0] == 1
    assert call(a, b) is not None


IN_PLACE = {
    "unary": lambda a, b, c: a.exp_(),
    "binary": lambda a, b, c: a.add_(b),
    "scaled": lambda a, b, c: a.add_(b, alpha=3),
    "number": lambda a, b, c: a.mul_(2.0),
    "ternary": lambda a, b, c: a.addcmul_(b, c),
    "matrices": lambda a, b, c: a.addmm_(b, c),
    "fill": lambda a, b, c: a.fill_(7.0),
    "copy": lambda a, b, c: a.copy_(b),
    "masked": lambda a, b, c: a.masked_fill_(c > 2, 1.0),
    "indexed": lambda a, b, c: a.__setitem__(0, b[1]),
    "random": lambda a, b, c: a.normal_(),
}


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("grad", [False, True], ids=["plain", "grad"])
@pytest.mark.parametrize("name", IN_PLACE)
def test_a_kernel_that_fails_in_place(device, name, grad, after):
    """Check that version and history show no write. As in PyTorch, the kernel's partial write stays."""
    a, b, c = matrix(device), matrix(device, grad), matrix(device)
    view = a.view(4)
    with failing_kernels(after=after), untouched(a, b, c, view, values=not after):
        IN_PLACE[name](a, b, c)
    assert not a.requires_grad and a._version_cell == [0] and view._version_cell is a._version_cell
    IN_PLACE[name](a, b, c)
    assert a.current_version() == 1


def test_a_history_survives_a_failing_write(device):
    w = matrix(device, grad=True)
    a = w * 2.0
    view = a[0]
    with failing_kernels(name="exp"), untouched(w, a, view):
        view.exp_()
    with failing_kernels(name="mul"), untouched(w, a, view):
        a.mul_(w)
    view.exp_()
    a.sum().backward()
    assert w.grad[1].tolist() == [2.0, 2.0]


def test_a_write_to_a_view_of_another_dtype_leaves_its_base_without_a_history():
    w = tt.ones(8, requires_grad=True)
    x = tt.zeros(4, dtype=tt.float64)
    view = x.view(tt.float32)
    view.add_(w)
    assert view.requires_grad and not x.requires_grad
    view.sum().backward()
    assert w.grad.tolist() == [1.0] * 8


OUTS = {
    "fits": ((2, 2), lambda a, b, out: tt.add(a, b, out=out)),
    "from nothing": ((0,), lambda a, b, out: tt.add(a, b, out=out)),
    "grows": ((3,), lambda a, b, out: tt.add(a, b, out=out)),
    "shrinks": ((5, 5), lambda a, b, out: tt.mm(a, b, out=out)),
    "reduced": ((3,), lambda a, b, out: tt.sum(a, 0, out=out)),
}


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("name", OUTS)
def test_a_kernel_that_fails_into_a_given_output(device, name):
    sizes, call = OUTS[name]
    a, b = matrix(device), matrix(device)
    out = tt.full(sizes, 9.0, device=device)
    whole = out.view(-1)
    before = out.data_ptr(), out.shape, out.tolist(), whole.tolist(), out._spec, out.current_version()
    state = thread_state()
    with (
        failing_kernels(name="add" if name in ("fits", "from nothing", "grows") else ""),
        pytest.raises(Fault),
    ):
        call(a, b, out)
    assert thread_state() == state
    assert (out.shape, out.tolist(), whole.tolist(), out._spec, out.current_version()) == before[1:]
    assert out._version_cell is whole._version_cell
    if out.numel() and whole.numel():
        assert out.data_ptr() == whole.data_ptr()
    call(a, b, out)
    assert out.tolist() == call(a, b, None).tolist() if name != "from nothing" else True


def test_several_outputs_of_which_one_fails_to_grow():
    a = matrix("cpu")
    values, indices = tt.full((1,), 9.0), tt.full((4,), 9, dtype=tt.int64)

    class Full(HostAllocator):
        room = 1

        def allocate(self, nbytes, device):
            self.room -= 1
            if self.room < 0:
                raise Fault("here")
            return super().allocate(nbytes, device)

        def empty_array(self, sizes, np_dtype, strides, nbytes):
            if nbytes:
                self.allocate(0, tt.device("cpu"))
            return super().empty_array(sizes, np_dtype, strides, nbytes)

    set_allocator("cpu", Full())
    try:
        state = tensor_state(indices)
        before = values.shape, values.tolist(), values.current_version()
        with pytest.raises(Fault):
            tt.max(tt.cat([a, a, a], 1), 0, out=(values, indices))
        assert (values.shape, values.tolist(), values.current_version()) == before
        assert tensor_state(indices) == state
    finally:
        set_allocator("cpu", None)


def test_a_kernel_that_fails_below_the_guards():
    a = matrix("cpu", grad=True)
    with ExitStack() as inside:
        inside.enter_context(tt.no_grad())
        inside.enter_context(IncludeDispatchKeyGuard(TRACER))
        inside.enter_context(ExcludeDispatchKeyGuard(TRACER))
        with failing_kernels(), untouched(a):
            a + a
    with tt.inference_mode(), failing_kernels(), untouched(a):
        a + a


@pytest.mark.parametrize("number", range(3))
def test_a_composite_whose_later_part_fails(device, number):
    a, b = matrix(device, grad=True), matrix(device)

    def call():
        return ((a @ b).relu() * b).sum()

    with failing_kernels(at=number) as calls, untouched(a, b):
        call()
    assert calls[0] == number + 1
    call().backward()


def test_a_chunk_of_a_parallel_kernel_that_fails():
    threads = tt.get_num_threads()
    tt.set_num_threads(2)
    try:
        for which in (0, 1):
            state = thread_state()
            with pytest.raises(Fault):
                parallel.parallel_for(0, 4, 1, lambda i, j, w=which: fault() if i // 2 == w else None)
            assert thread_state() == state
        seen = []
        parallel.parallel_for(0, 4, 1, lambda i, j: seen.append((i, j)))
        assert sorted(seen) == [(0, 1), (1, 2), (2, 3), (3, 4)]
    finally:
        tt.set_num_threads(threads)


# --- meta functions and planners


def test_a_meta_function_that_refuses(device):
    a, b = matrix(device, grad=True), tt.ones(3, 3, device=device)
    out = tt.ones(5, device=device)
    with untouched(a, b, error=RuntimeError, match="must match"):
        a + b
    with untouched(b, out, error=RuntimeError, match="cannot be multiplied"):
        tt.mm(b, a.detach(), out=out)
    with untouched(a, b, error=RuntimeError, match="must match"):
        b.add_(a)


def test_a_fake_kernel_that_fails():
    @tt.library.custom_op("exception_safety::faked", mutates_args=())
    def faked(x: tt.Tensor) -> tt.Tensor:
        return x.clone()

    faked.register_fake(fault)
    x = tt.ones(2, device="meta", requires_grad=True)
    with untouched(x):
        faked(x)


def test_a_planner_that_fails_is_asked_again(library):
    lib, ops = library
    lib.define("f(Tensor x) -> Tensor")
    asked = []

    def planner(op, key_set, args):
        asked.append(1)
        if len(asked) == 1:
            raise Fault("here")
        return lambda x: x

    x = tt.ones(2)
    kernel = KernelFunction(None, planner=planner, leaf=True)
    with Dispatcher.singleton().register_impl(f"{lib.ns}::f", "CPU", kernel):
        with untouched(x):
            ops.f(x)
        assert ops.f(x) is x and ops.f(x) is x
    assert len(asked) == 2


# --- autograd


class Failing(tt.autograd.Function):
    @staticmethod
    def forward(ctx, x, where):
        ctx.where = where
        ctx.save_for_backward(x)
        if where == "forward":
            x.exp()
            raise Fault("here")
        return x + x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        tt.set_grad_enabled(True)
        (grad * x).exp()
        raise Fault("here")


def test_a_function_whose_forward_fails(device):
    x = matrix(device, grad=True)
    with untouched(x):
        Failing.apply(x, "forward")


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_function_whose_backward_fails(device, create_graph):
    x, y = matrix(device, grad=True), matrix(device, grad=True)
    loss = (Failing.apply(x, "backward") * y.exp()).sum()
    with untouched(x, loss):
        loss.backward(retain_graph=True, create_graph=create_graph)
    with untouched(x, loss):
        tt.autograd.grad(loss, [x], retain_graph=True)
    with tt.no_grad(), untouched(x):
        (tt.autograd.grad(Failing.apply(x, "forward"), [x]))


def test_an_output_that_cannot_be_aliased():
    """Check a Function that returns its input: its result is an alias, made with grad mode off."""

    class Same(tt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

    class NoAlias(tt.TensorDispatchMode):
        def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
            raise Fault("here")

    x = tt.ones(2, requires_grad=True)
    with NoAlias(), untouched(x):
        Same.apply(x)


@pytest.mark.parametrize("where", ["setup_context", "backward", "kernel"])
def test_a_registered_formula_that_fails(where, request):
    def compute(x: tt.Tensor) -> tt.Tensor:
        if where == "kernel":
            x.exp()
            raise Fault("here")
        return x.clone()

    op = tt.library.custom_op(f"exception_safety::formula_{where}", compute, mutates_args=())
    op.register_autograd(
        fault, setup_context=fault if where == "setup_context" else lambda ctx, inputs, output: None
    )
    x = tt.ones(2, requires_grad=True)
    if where == "backward":
        loss = op(x).sum()
        with untouched(x, loss):
            loss.backward()
    else:
        with untouched(x):
            op(x)


@pytest.mark.parametrize("kernel", ["mul", "exp"])
def test_a_kernel_of_backward_that_fails(device, kernel):
    x = matrix(device, grad=True)
    loss = (x * x).exp().sum()
    with failing_kernels(name="mul"), untouched(x, loss):
        loss.backward(retain_graph=True)
    loss.backward()
    assert x.grad is not None


HOOKS = {
    "tensor": lambda x, y: y.register_hook(fault),
    "leaf": lambda x, y: x.register_hook(fault),
    "before": lambda x, y: y.grad_fn.register_prehook(fault),
    "after": lambda x, y: y.grad_fn.register_hook(fault),
    "bad result": lambda x, y: y.register_hook(lambda grad: "no gradient"),
}


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_that_fails(device, name):
    x = matrix(device, grad=True)
    y = x * x
    loss = y.sum()
    handle = HOOKS[name](x, y)
    error, match = (TypeError, "hook returned 'str'") if name == "bad result" else (Fault, "here")
    with untouched(x, y, loss, error=error, match=match):
        loss.backward(retain_graph=True)
    handle.remove()
    loss.backward()
    assert x.grad.tolist() == [[2.0, 4.0], [6.0, 10.0]]


def test_a_hook_after_accumulation_that_fails(device):
    """Check that the gradient was accumulated before the hook, and that the leaves' shared lock is free."""
    x = matrix(device, grad=True)
    handle = x.register_post_accumulate_grad_hook(fault)
    state = thread_state()
    with pytest.raises(Fault):
        x.sum().backward()
    assert thread_state() == state and x.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    handle.remove()
    done = []
    thread = threading.Thread(target=lambda: (x.sum().backward(), done.append(1)))
    thread.start()
    join(thread)
    assert done and x.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_a_saved_tensor_that_is_refused(device):
    x = matrix(device, grad=True)
    y = x.exp()
    loss = (y * y).sum()
    y.data  # noqa: B018 - has a version counter of its own
    y.detach().zero_()
    with untouched(x, y, loss, error=RuntimeError, match="modified by an inplace operation"):
        loss.backward()
    loss = x.exp().sum()
    loss.backward()
    with untouched(x, loss, error=RuntimeError, match="a second time"):
        loss.backward()


def test_inference_tensors_that_are_refused():
    w = tt.ones(2, requires_grad=True)
    with tt.inference_mode():
        x = tt.ones(2)
    with untouched(w, x, error=RuntimeError, match="cannot be saved for backward"):
        w * x
    with untouched(x, error=RuntimeError, match="outside InferenceMode"):
        x.add_(1)


# --- modes, subclasses, boxed kernels


class FailingMode(tt.TensorDispatchMode):
    """Calls on for a while, then fails."""

    def __init__(self, calls=0):
        self.left = calls

    def __tensor_dispatch__(self, func, types, args=(), kwargs=None):
        self.left -= 1
        if self.left < 0:
            raise Fault("here")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("calls", [0, 1])
def test_a_mode_whose_handler_fails(device, calls):
    x = matrix(device, grad=True)
    with FailingMode(), FailingMode(calls), untouched(x):
        x + x
        x.exp()
    with suppress(Fault), FailingMode(), tt.no_grad():
        x + x


def test_a_mode_that_fails_inside_backward(device):
    x = matrix(device, grad=True)
    loss = (x * x).exp().sum()
    with FailingMode(1), untouched(x, loss):
        loss.backward()


def test_a_subclass_whose_handler_fails():
    class Mine(tt.Tensor):
        @classmethod
        def __tensor_dispatch__(cls, func, types, args=(), kwargs=None):
            raise Fault("here")

    x = python_key.as_subclass(tt.ones(2), Mine)
    w = tt.ones(2, requires_grad=True)
    spec, version = x._spec, x.current_version()
    for call in (lambda: x + w, lambda: w * x, lambda: x.add_(1.0), lambda: tt.cat([w, x])):
        with untouched(w):
            call()
        assert x._spec is spec and x.current_version() == version


def test_a_boxed_kernel_and_a_fallback_that_fail(library):
    lib, ops = library
    lib.define("f(Tensor x) -> Tensor")

    def boxed(op, key_set, stack):
        stack.clear()
        raise Fault("here")

    dispatcher = Dispatcher.singleton()
    x = tt.ones(2, requires_grad=True)
    with dispatcher.register_impl(f"{lib.ns}::f", "CPU", KernelFunction(boxed, boxed=True)), untouched(x):
        ops.f(x)
    lib.impl("f", lambda x: x.clone(), "CPU")
    lib.impl("f", fault, "Tracer")
    with IncludeDispatchKeyGuard(TRACER), untouched(x):
        ops.f(x)
    entry = dispatcher.find_schema_or_throw(f"{lib.ns}::f")
    stack = ["below", x]
    with IncludeDispatchKeyGuard(TRACER), untouched(x):
        dispatcher.call_boxed(entry, stack)
    assert stack[0] == "below" and stack[1] is x and len(stack) == 2
    dispatcher.call_boxed(entry, stack)
    assert stack[0] == "below" and stack[1].tolist() == [1.0, 1.0]


# --- custom operators


def test_a_custom_operator_that_fails(device):
    @tt.library.custom_op(f"exception_safety::plain_{device}", mutates_args=())
    def plain(x: tt.Tensor) -> tt.Tensor:
        tt.set_grad_enabled(True)
        raise Fault("here")

    x = matrix(device, grad=True)
    with untouched(x):
        plain(x)


def test_a_custom_operator_that_fails_while_it_writes():
    """Its arguments count as written to: what it wrote is not known, and saved tensors must not be trusted."""

    @tt.library.custom_op("exception_safety::writing", mutates_args=("x",))
    def writing(x: tt.Tensor) -> None:
        x.numpy()[0] = 7.0
        raise Fault("here")

    w = tt.ones(2, requires_grad=True)
    x = tt.ones(2)
    loss = (w * x).sum()
    state = thread_state()
    with pytest.raises(Fault):
        writing(x)
    assert thread_state() == state and x.current_version() == 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_kernel_that_leaves_its_guards_open_is_the_callers_own_affair(library):
    """Check that guards inside a kernel that raises are closed by their blocks."""
    lib, ops = library
    lib.define("f(Tensor x) -> Tensor")

    def kernel(x):
        with tt.no_grad(), ExcludeDispatchKeyGuard(TRACER), FailingMode(), tt.cuda.device(LAST):
            return x + x

    lib.impl("f", kernel, "CompositeExplicitAutograd")
    x = tt.ones(2, requires_grad=True)
    with untouched(x):
        ops.f(x)


# --- allocators


class Empty(HostAllocator):
    """Host memory that has run out."""

    def allocate(self, nbytes, device):
        if nbytes:
            raise Fault("here")
        return DataPtr(0, 0, device)

    def empty_array(self, sizes, np_dtype, strides, nbytes):
        return self.allocate(nbytes, tt.device("cpu")) and np.empty(sizes, np_dtype)


ALLOCATING = {
    "add": lambda a, w: a + a,
    "recorded": lambda a, w: w * a,
    "proxy": lambda a, w: tt.add(a, a, out=a.t()),
    "resize": lambda a, w: a.resize_(50, 50),
    "storage": lambda a, w: a.untyped_storage().resize_(4096),
    "out": lambda a, w: tt.add(tt.arange(64.0), 1, out=a),
    "clone": lambda a, w: w.clone(),
    "factory": lambda a, w: tt.zeros(3),
    "large": lambda a, w: tt.ones(100, 100),
    "several": lambda a, w: tt.max(a, 0),
}


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
@pytest.mark.parametrize("name", [n for n in ALLOCATING if n != "proxy"])
def test_host_memory_that_runs_out(name):
    a, w = matrix("cpu"), matrix("cpu", grad=True)
    set_allocator("cpu", Empty())
    try:
        with untouched(a, w):
            ALLOCATING[name](a, w)
    finally:
        set_allocator("cpu", None)
    ALLOCATING[name](a, w)


@pytest.mark.parametrize("name", ["add", "recorded", "clone", "resize"])
def test_device_memory_that_runs_out(name, monkeypatch):
    a, w = matrix("cuda"), matrix("cuda", grad=True)
    tt.cuda.synchronize()
    gc.collect()  # cycles that earlier tests left must not be freed in between
    held = tt.cuda.memory_allocated()

    def none_left(device, nbytes):
        raise tt.cuda.OutOfMemoryError("here")

    big = tt.empty(0, device="cuda")
    monkeypatch.setattr(driver(), "malloc", none_left)
    with untouched(big, error=tt.cuda.OutOfMemoryError, match="CUDA out of memory"):
        big.resize_(3 * 2**20)
    with untouched(a, w, error=tt.cuda.OutOfMemoryError, match="CUDA out of memory"):
        tt.ones(3 * 2**20, device="cuda")
    monkeypatch.undo()
    assert tt.cuda.memory_allocated() == held
    ALLOCATING[name](a, w)


def test_memory_of_another_stream_survives_an_event_that_fails(monkeypatch):
    cuda = driver()
    allocator = type(CUDA_ALLOCATOR)()
    device = tt.device("cuda", LAST)
    data = allocator.allocate(512, device)
    allocator.record_stream(data, cuda.create_stream(LAST))
    state = thread_state()
    del data
    gc.collect()
    monkeypatch.setattr(cuda, "create_event", fault)
    with pytest.raises(Fault):
        allocator.allocate(512, device)
    assert thread_state() == state
    monkeypatch.undo()
    allocator.empty_cache()
    stats = nested_stats(allocator, LAST)
    assert stats["active"]["all"] == {"current": 0, "peak": 1, "allocated": 1, "freed": 1}


# --- launches


def test_a_launch_that_is_refused():

    @triton.jit
    def store(out, n, BLOCK: tl.constexpr):
        tl.store(out + tl.arange(0, BLOCK), 1.0)

    x = tt.zeros(16, device=f"cuda:{LAST}")
    with untouched(x, error=RuntimeError, match="invalid configuration"):
        tt.library.launch(store, (1, 70000), x, 16, BLOCK=16)
    tt.library.launch(store, (1,), x, 16, BLOCK=16)
    assert x.tolist() == [1.0] * 16


@pytest.mark.skipif(os.environ["TRITEN_CUDA"] != "interpret", reason="a GPU does not check addresses")
def test_a_kernel_that_fails_on_the_device():

    @triton.jit
    def beyond(out, BLOCK: tl.constexpr):
        tl.store(out + 100000 + tl.arange(0, BLOCK), 1.0)

    x, w = tt.zeros(16, device="cuda"), tt.ones(16, device="cuda", requires_grad=True)
    tt.cuda.synchronize()
    with untouched(x, w, error=RuntimeError, match="illegal memory access", values=False):
        tt.library.launch(beyond, (1,), x, BLOCK=16)
        tt.cuda.synchronize()
    assert (x + w).tolist() == [1.0] * 16


# --- observers, profilers, traces, listeners


def test_an_observer_that_fails(device):
    x = matrix(device, grad=True)
    observers.append(fault)
    Dispatcher.singleton().forget_all()
    try:
        with untouched(x):
            x + x
    finally:
        observers.remove(fault)
    assert (x + x).tolist() == [[2.0, 4.0], [6.0, 10.0]]


def test_a_profiled_program_that_fails(device):
    x = matrix(device, grad=True)
    loss = Failing.apply(x, "backward").sum()
    outside = thread_state()
    with pytest.raises(Fault), tt.profiler.profile(profile_memory=True) as prof:
        with untouched(x), tt.profiler.record_function("range"), failing_kernels():
            x + x
        with untouched(x, loss):
            loss.backward()
        fault()
    assert thread_state() == outside
    assert isinstance(get_allocator("cpu"), HostAllocator) and get_allocator("cuda") is CUDA_ALLOCATOR
    names = [e.name for e in prof.events()]
    assert {"range", "aten::add", "FailingBackward"} <= set(names)


def test_a_profiler_that_cannot_begin(monkeypatch):
    outside = thread_state()
    monkeypatch.setattr(profile_session, "ObservedNodes", fault)
    with pytest.raises(Fault):
        tt.profiler.profile().start()
    assert thread_state() == outside
    monkeypatch.undo()
    with tt.profiler.profile() as prof:
        tt.ones(2)
    assert [e.name for e in prof.events()] == ["aten::ones"]


def test_a_profiler_that_cannot_end(monkeypatch):
    outside = thread_state()
    x = tt.ones(2, device="cuda")
    prof = tt.profiler.profile()
    prof.start()
    x + x
    monkeypatch.setattr(driver(), "elapsed", fault)
    with pytest.raises(Fault):
        prof.stop()
    assert thread_state() == outside


def test_a_trace_whose_file_fails(device):
    class Full:
        def write(self, text):
            raise Fault("here")

    x = matrix(device, grad=True)
    outside = thread_state()
    with tt.dispatch.show_trace(Full()):
        with untouched(x):
            x @ x
        with untouched(x):
            x.detach().add_(1.0)
    assert thread_state() == outside
    assert (x @ x).requires_grad


def test_a_traced_call_that_fails(device):
    x = matrix(device, grad=True)
    with tt.dispatch.show_trace(io.StringIO()), failing_kernels(), untouched(x):
        x @ x


def test_a_listener_that_fails():
    class Listener:
        def on_operator_registered(self, op):
            if op.name == "listener_fails::f":
                raise Fault("here")

        def on_operator_deregistered(self, op):
            pass

    x = tt.ones(2)
    with Dispatcher.singleton().add_listener(Listener()), tt.library.Library("listener_fails", "DEF") as lib:
        with untouched(x):
            lib.define("f(Tensor x) -> Tensor")
        assert Dispatcher.singleton().find_schema("listener_fails::f") is None
        assert (x + x).tolist() == [2.0, 2.0]


# --- threads


def test_threads_that_die_inside_a_layer_leave_the_others_alone(device):
    x = matrix(device, grad=True)
    loss = (x * x).sum()
    here = thread_state()

    def die(inside):
        with suppress(Fault), inside:
            x + x
            raise Fault

    def in_no_grad():
        die(tt.no_grad())

    def in_inference():
        die(tt.inference_mode())

    def in_mode():
        die(FailingMode(1))

    def in_guard():
        die(ExcludeDispatchKeyGuard(TRACER))

    def in_backward():
        with suppress(Fault):
            Failing.apply(x, "backward").sum().backward()

    def on_another_device():
        die(tt.cuda.device(LAST))

    def in_profiler():
        die(tt.profiler.profile())

    threads = [
        threading.Thread(target=each)
        for each in (in_no_grad, in_inference, in_mode, in_guard, in_backward, on_another_device, in_profiler)
    ]
    for thread in threads:
        thread.start()
    join(*threads)
    assert thread_state() == here
    loss.backward()
    assert x.grad.tolist() == [[2.0, 4.0], [6.0, 10.0]]


def test_a_thread_sees_nothing_of_anothers_failure():
    started, failed = threading.Event(), threading.Event()
    seen = []

    def other():
        with tt.no_grad(), FailingMode(1):
            before = thread_state()
            started.set()
            failed.wait(PATIENCE)
            seen.append(thread_state()["keys"] == before["keys"] and not tt.is_grad_enabled())

    thread = threading.Thread(target=other)
    thread.start()
    started.wait(PATIENCE)
    x = tt.ones(2, requires_grad=True)
    with failing_kernels(), pytest.raises(Fault):
        x + x
    assert tt.is_grad_enabled() and (local.included, local.excluded) == (0, 0)
    failed.set()
    join(thread)
    assert seen == [True]
