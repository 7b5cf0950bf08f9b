"""`tt.cuda` as a program uses it: streams, events, pinned tensors, graphs, a user's own kernel."""

from __future__ import annotations

import numpy as np

import triten as tt
from triten.runtime.cuda.driver import is_simulated

from .device_memory import probes
from .first_checks import NotBuilt, agree, check, fresh_numbers, public, require

N = 1000


@check("cuda: Stream and Event")
def stream_and_event() -> None:
    stream_class, event_class, stream_context = (
        public("cuda.Stream"), public("cuda.Event"), public("cuda.stream"),
    )  # fmt: skip
    side = stream_class()
    x = tt.arange(float(N), device="cuda")
    done = event_class(enable_timing=True)
    side.wait_stream(public("cuda.current_stream")())
    with stream_context(side):
        y = x * 2
        done.record()
    public("cuda.current_stream")().wait_event(done)
    agree((y + 1).cpu().numpy(), np.arange(float(N), dtype=np.float32) * 2 + 1, "work of two streams")
    done.synchronize()
    require(done.query(), "an event is not done after waiting for it")


@check("cuda: a wrong index is reported by who waits, once, and the device works on")
def wrong_index() -> str:
    x = tt.arange(float(N), device="cuda")
    for call in (lambda i: x[i], lambda i: x.index_add(0, i, x[:1]), lambda i: x.gather(0, i)):
        call(tt.tensor([3], device="cuda"))
        tt.cuda.synchronize()
        call(tt.tensor([N], device="cuda"))
        try:
            tt.cuda.synchronize()
        except (IndexError, RuntimeError) as error:
            require(f"with size {N}" in str(error), f"another error: {error}")
        else:
            require(False, "no error of an index out of bounds")
        tt.cuda.synchronize()
        agree(x.cpu().numpy(), np.arange(float(N)), "what was there")
    return "three operators"


@check("cuda: a tensor's record_stream")
def record_stream() -> None:
    public("Tensor.record_stream")
    side = public("cuda.Stream")()
    x = tt.ones(N, device="cuda")
    side.wait_stream(public("cuda.current_stream")())
    with public("cuda.stream")(side):
        y = x + 1
    x.record_stream(side)
    del x
    z = tt.zeros(N, device="cuda")
    side.synchronize()
    agree(y.cpu().numpy(), np.full(N, 2.0), "what the other stream read")
    agree(z.cpu().numpy(), np.zeros(N), "what took its place")


@check("cuda: pinned tensors and non_blocking copies")
def pinned_tensors() -> None:
    public("Tensor.pin_memory")
    x = tt.arange(float(N)).pin_memory()
    require(x.is_pinned(), "a pinned tensor does not say so")
    y = x.to("cuda", non_blocking=True)
    z = y.to("cpu", non_blocking=True)
    tt.cuda.synchronize()
    agree(z.numpy(), np.arange(float(N)), "there and back without waiting")


@check("cuda: memory statistics, snapshot and summary")
def memory_statistics() -> str:
    x = tt.ones(N, device="cuda")
    stats = public("cuda.memory_stats")()
    require(
        stats["allocated_bytes.all.current"] >= x.nbytes, f"{stats.get('allocated_bytes.all.current')} bytes"
    )
    snapshot = public("cuda.memory_snapshot")()
    require(bool(snapshot), "a snapshot with a live tensor is empty")
    return f"{len(stats)} statistics, {len(snapshot)} segments, {len(public('cuda.memory_summary')())} characters"


@check("cuda: a fraction limit refuses, and lifting it works")
def memory_fraction() -> str:
    limit = public("cuda.set_per_process_memory_fraction")
    tt.cuda.empty_cache()
    _, total = tt.cuda.mem_get_info()
    limit(0.01)
    try:
        tt.empty(int(total * 0.02), dtype=tt.uint8, device="cuda")
    except tt.cuda.OutOfMemoryError as error:
        told = str(error)
    else:
        raise AssertionError("twice the limit was given")
    finally:
        limit(1.0)
    tt.ones(N, device="cuda").sum().item()
    return told[:120]


@check("cuda: CuPy's arrays from the same pool")
def cupy_allocator() -> str:
    if is_simulated():
        from .first_checks import NeedsACard

        raise NeedsACard("CuPy has no memory without one")
    import cupy

    names = ("cupy_allocator", "caching_allocator_alloc")
    found = next((getattr(tt.cuda, name) for name in names if hasattr(tt.cuda, name)), None)
    if found is None:
        raise NotBuilt(f"there is none of tt.cuda.{', tt.cuda.'.join(names)}")
    if found.__name__ != "cupy_allocator":
        raise NotBuilt("there is no tt.cuda.cupy_allocator")
    cupy.cuda.set_allocator(found)
    try:
        before = tt.cuda.memory_allocated()
        array = cupy.empty(N, dtype=cupy.float32)  # nothing that CuPy would compile: that takes NVRTC
        array.set(np.arange(N, dtype=np.float32))
        require(tt.cuda.memory_allocated() > before, "CuPy's array is not counted")
        agree(cupy.asnumpy(array), np.arange(N), "CuPy's array")
    finally:
        cupy.cuda.set_allocator(None)
    return "arrays of CuPy's are counted"


@check("cuda: a graph captures a step and replays it")
def graph() -> str:
    graph_class, capture = public("cuda.CUDAGraph"), public("cuda.graph")
    w = tt.randn(16, 16, device="cuda")
    x = tt.randn(8, 16, device="cuda")
    for _ in range(3):
        expected = (x @ w).relu().sum(1)  # every kernel is loaded before the capture
    tt.cuda.synchronize()
    captured = graph_class()
    with capture(captured):
        out = (x @ w).relu().sum(1)
    for _ in range(3):
        fresh = tt.randn(8, 16, device="cuda")
        x.copy_(fresh)
        expected = (fresh @ w).relu().sum(1)
        captured.replay()
        tt.cuda.synchronize()
        agree(out.cpu().numpy(), expected.cpu().numpy(), "a replay beside the eager step")
    return "3 replays on fresh inputs"


@check("cuda: make_graphed_callables")
def graphed_callables() -> None:
    make = public("cuda.make_graphed_callables")
    w = tt.randn(16, 16, device="cuda").requires_grad_()

    def function(x: tt.Tensor) -> tt.Tensor:
        return (x @ w).relu()

    sample = tt.randn(8, 16, device="cuda").requires_grad_()
    function(sample).sum().backward()
    w.grad = None
    graphed = make(function, (sample,))
    x = tt.randn(8, 16, device="cuda").requires_grad_()
    agree(graphed(x).detach().cpu().numpy(), function(x).detach().cpu().numpy(), "the graphed callable")


@check("cuda: a user's kernel through library.launch")
def users_kernel() -> None:
    a, b = tt.randn(N, device="cuda"), tt.randn(N, device="cuda")
    out = tt.empty(N, device="cuda")
    tt.library.launch(probes.add, (-(-N // 256),), a, b, out, N, BLOCK=256)
    agree(out.cpu().numpy(), a.cpu().numpy() + b.cpu().numpy(), "a + b")


@check("cuda: a user's kernel[grid] through Triton's own launcher", on_a_card=True)
def users_kernel_by_triton() -> None:
    use_triton_driver = public("library.use_triton_driver")
    a, b = tt.randn(N, device="cuda"), tt.randn(N, device="cuda")
    out = tt.empty(N, device="cuda")
    with use_triton_driver():
        probes.add[(-(-N // 256),)](a, b, out, N, BLOCK=256)
    agree(out.cpu().numpy(), a.cpu().numpy() + b.cpu().numpy(), "a + b")


@check("cuda: a training step changes its parameters as on the CPU")
def training_step() -> str:
    rng = fresh_numbers()
    w0, x0 = rng.standard_normal((32, 16)), rng.standard_normal((8, 32))
    losses = {}
    for device in ("cpu", "cuda"):
        w = tt.from_numpy(w0.copy()).to(device).requires_grad_()
        x = tt.from_numpy(x0).to(device)
        for _ in range(5):
            loss = ((x @ w).tanh() ** 2).mean()
            loss.backward()
            with tt.no_grad():
                w.sub_(w.grad, alpha=0.1)
            w.grad = None
        losses[device] = float(loss.item())
    require(abs(losses["cpu"] - losses["cuda"]) <= 1e-12, f"{losses}")
    return f"loss {losses['cuda']:.12f} in float64, the CPU's within 1e-12"
