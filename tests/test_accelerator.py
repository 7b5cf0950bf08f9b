"""`tt.accelerator`, flags of libraries, and what programs set so that runs repeat."""

import subprocess
import sys
import threading

import pytest

import triten as tt


def test_the_accelerator_is_cuda() -> None:
    accelerator = tt.accelerator
    assert accelerator.is_available() and accelerator.device_count() == tt.cuda.device_count() >= 1
    assert accelerator.current_accelerator() == tt.device("cuda")
    assert accelerator.current_device_index() == tt.cuda.current_device()
    accelerator.set_device_index("cuda:0")
    with accelerator.device_index(0), accelerator.device_index(None):
        x = tt.ones(1000, device=accelerator.current_accelerator())
    accelerator.synchronize()
    accelerator.synchronize("cuda:0")
    assert accelerator.memory_allocated() == tt.cuda.memory_allocated() > 0
    assert accelerator.memory_stats()["allocated_bytes.all.current"] >= x.nbytes
    assert accelerator.max_memory_reserved() >= accelerator.memory_reserved() >= x.nbytes
    free, total = accelerator.get_memory_info(0)
    assert 0 < free <= total
    accelerator.reset_peak_memory_stats()
    accelerator.empty_cache()
    stream = tt.cuda.Stream()
    before = accelerator.current_stream()
    accelerator.set_stream(stream)
    assert accelerator.current_stream() == stream
    accelerator.set_stream(before)
    with pytest.raises(ValueError, match="cpu doesn't match the current accelerator cuda"):
        accelerator.synchronize("cpu")


def test_a_machine_without_one(tmp_path) -> None:
    program = """
import triten as tt
assert not tt.accelerator.is_available() and tt.accelerator.device_count() == 0
assert tt.accelerator.current_accelerator() is None
try:
    tt.accelerator.synchronize()
except RuntimeError as error:
    print(error)
"""
    run = subprocess.run(
        [sys.executable, "-P", "-c", program],
        cwd=tmp_path,
        env={**_environment(), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout == "Cannot access accelerator device when none is available.\n"


def _environment() -> dict[str, str]:
    import os

    return {
        name: value for name, value in os.environ.items() if name not in ("TRITEN_CUDA", "TRITON_INTERPRET")
    }


def test_flags_of_cudnn_and_mps() -> None:
    cudnn = tt.backends.cudnn
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (True, False, False)
    cudnn.deterministic = True
    with cudnn.flags(enabled=False, benchmark=True, allow_tf32=False):
        assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic, cudnn.allow_tf32) == (
            False,
            True,
            False,
            False,
        )
    assert cudnn.enabled and cudnn.deterministic and cudnn.allow_tf32
    cudnn.deterministic = False
    with pytest.raises(RuntimeError, match="set_benchmark_cudnn expects a bool, but got int"):
        cudnn.benchmark = 1
    with pytest.raises(AttributeError):
        cudnn.determinstic = True
    assert not cudnn.is_available() and cudnn.version() is None
    assert not tt.backends.mps.is_available() and not tt.backends.mps.is_built()


def test_deterministic_algorithms_are_asked_for() -> None:
    try:
        tt.use_deterministic_algorithms(True)
        assert tt.are_deterministic_algorithms_enabled() and tt.get_deterministic_debug_mode() == 2
        assert not tt.is_deterministic_algorithms_warn_only_enabled()
        tt.use_deterministic_algorithms(True, warn_only=True)
        assert tt.is_deterministic_algorithms_warn_only_enabled() and tt.get_deterministic_debug_mode() == 1
        tt.set_deterministic_debug_mode("error")
        seen = []
        thread = threading.Thread(target=lambda: seen.append(tt.get_deterministic_debug_mode()))
        thread.start()
        thread.join()
        assert seen == [2]
        tt.set_deterministic_debug_mode(0)
        assert not tt.are_deterministic_algorithms_enabled()
    finally:
        tt.use_deterministic_algorithms(False)
    for error, words, wrong in (
        (RuntimeError, "but got a", "a"),
        (RuntimeError, "but got 5", 5),
        (TypeError, "str or int", None),
    ):
        with pytest.raises(error, match=words):
            tt.set_deterministic_debug_mode(wrong)
    with pytest.raises(TypeError, match=r"'mode' \(position 1\) must be bool, not int"):
        tt.use_deterministic_algorithms(1)
    try:
        tt.use_deterministic_algorithms(False, warn_only=True)
        assert tt.is_deterministic_algorithms_warn_only_enabled() and not tt.get_deterministic_debug_mode()
    finally:
        tt.use_deterministic_algorithms(False)
    assert not tt.is_deterministic_algorithms_warn_only_enabled()


def test_older_names_of_amp_and_of_tensors() -> None:
    from triten.cuda.amp import GradScaler, autocast

    assert tt.cuda.amp.autocast is autocast and issubclass(autocast, tt.autocast)
    x = tt.ones(2, 2, device="cuda")
    with autocast():
        assert (x @ x).dtype is tt.float16
    with autocast(dtype=tt.bfloat16):
        assert (x @ x).dtype is tt.bfloat16
    with autocast(enabled=False):
        assert (x @ x).dtype is tt.float32

    @autocast()
    def product(x):
        return x @ x

    assert product(x).dtype is tt.float16
    scaler = GradScaler(init_scale=8.0)
    assert scaler.is_enabled() and scaler.scale(tt.ones(1, device="cuda")).item() == 8

    class Product(tt.autograd.Function):
        @staticmethod
        @tt.cuda.amp.custom_fwd(cast_inputs=tt.float32)
        def forward(ctx, x):
            return x * 2

        @staticmethod
        @tt.cuda.amp.custom_bwd
        def backward(ctx, grad):
            return grad * 2

    with autocast():
        assert Product.apply(x.half()).dtype is tt.float32

    Variable = tt.autograd.Variable
    source = tt.ones(2, requires_grad=True) * 2
    made = Variable(source, requires_grad=True)
    assert type(made) is tt.Tensor and made.is_leaf and made.data_ptr() == source.data_ptr()
    assert isinstance(source, Variable) and not isinstance(2, Variable) and Variable().shape == (0,)
    with pytest.raises(TypeError, match="has to be a tensor, but got int"):
        Variable(2)
    assert issubclass(tt.OutOfMemoryError, RuntimeError) and tt.OutOfMemoryError is tt.cuda.OutOfMemoryError


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_streams_and_events_of_any_kind_of_device(kind):
    stream, event = tt.Stream(kind), tt.Event(kind)
    own = getattr(tt, kind)
    assert isinstance(stream, own.Stream) and isinstance(stream, tt.Stream)
    assert isinstance(event, own.Event) and isinstance(event, tt.Event) and not isinstance(event, tt.Stream)
    event.record(stream)
    event.synchronize()
    assert event.query()
    assert not isinstance(1, tt.Stream)


def test_devices_without_streams_are_refused():
    for make in (tt.Stream, tt.Event):
        with pytest.raises(RuntimeError, match="no streams and events for meta devices"):
            make("meta")


def test_the_namespace_of_a_device():
    assert tt.get_device_module("cuda:0") is tt.cuda
    assert tt.get_device_module(tt.device("cpu")).current_device() == "cpu"
    assert tt.get_device_module("xpu").is_available() is False
    assert (
        tt.get_device_module().__name__
        == f"triten.{(tt.accelerator.current_accelerator() or tt.device('cpu')).type}"
    )
    with pytest.raises(RuntimeError, match=r"Device 'meta' .* registered as 'triten\.meta'"):
        tt.get_device_module("meta")


def test_former_names():
    if not tt.accelerator.is_available():
        with pytest.raises(RuntimeError, match="none is available"):
            tt.accelerator.empty_host_cache()
        return
    assert tt.accelerator.current_device_idx() == tt.accelerator.current_device_index()
    tt.accelerator.set_device_idx(0)
    assert tt.float32 in tt.accelerator.get_device_capability()["supported_dtypes"]
    tt.accelerator.empty_host_cache()


def test_a_graph_captures_the_current_stream():
    x = tt.zeros(3, device="cuda")
    x += 1
    graph = tt.accelerator.Graph()
    with tt.cuda.stream(tt.cuda.Stream()), graph:
        x += 1
    assert x.tolist() == [1.0, 1.0, 1.0]
    graph.replay()
    graph.replay()
    assert x.tolist() == [3.0, 3.0, 3.0]
    other = tt.accelerator.Graph(pool=graph.pool())
    with tt.cuda.stream(tt.cuda.Stream()), other:
        x *= 2
    other.replay()
    assert x.tolist() == [6.0, 6.0, 6.0] and other.pool() == graph.pool()
    graph.reset()
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        graph.replay()


def test_a_graph_refuses_an_unknown_mode():
    with pytest.raises(RuntimeError, match="unknown capture_error_mode 'loose'"):
        tt.accelerator.Graph(capture_error_mode="loose")


def test_autocast_of_the_cpu_by_its_older_name() -> None:
    from triten.amp.cpu import autocast

    with pytest.warns(FutureWarning, match="amp.autocast\\('cpu', args...\\)"):
        context = autocast(dtype=tt.float16)
    with context:
        assert (tt.ones(2, 2) @ tt.ones(2, 2)).dtype is tt.float16
    with pytest.warns(FutureWarning), autocast(enabled=False):
        assert (tt.ones(2, 2) @ tt.ones(2, 2)).dtype is tt.float32
