"""Calls of the CuPy driver for capture and graphs, compared with bindings that count handles."""

import ctypes
import importlib
import importlib.util
import sys
import threading
from pathlib import Path

import pytest

from triten.runtime.cuda.capture import relaxed_capture

OURS = ["driver", "copies", "devices", "graph", "errors", "kernel"]
KERNEL, MEMCPY = 0, 1
INVALIDATED, UNMATCHED, WRONG_THREAD = 901, 903, 908


class Capturing:
    """Captured streams, their graphs' nodes and executables, as libcuda and CuPy's runtime see them."""

    def __init__(self, runtime):
        self.error = runtime.CUDARuntimeError
        self.streams = {}
        self.graphs = {}
        self.executables = {}
        self.log = []
        self.mode = 0
        self.fails_with = 0
        self.nodes = [KERNEL, MEMCPY, KERNEL]
        for name in dir(self):
            if name.startswith(("stream", "graph")) and callable(getattr(self, name)):
                setattr(runtime, name, getattr(self, name))

    def streamBeginCapture(self, stream, mode):
        self.streams[stream] = 0x100 + len(self.log)
        self.log.append(("begin", stream, mode))

    def streamEndCapture(self, stream):
        if self.fails_with not in (UNMATCHED, WRONG_THREAD):
            del self.streams[stream]
        if self.fails_with:
            raise self.error(self.fails_with)
        graph = 0x9000 + len(self.log)
        self.graphs[graph] = self.nodes
        self.log.append(("end", stream))
        return graph

    def graphInstantiate(self, graph):
        executable = 0xA000 + len(self.log)
        self.executables[executable] = self.graphs[graph]
        self.log.append(("instantiate", graph))
        return executable

    def graphLaunch(self, executable, stream):
        assert executable in self.executables, "CUDA may crash here"
        self.log.append(("launch", executable, stream))

    def graphDestroy(self, graph):
        del self.graphs[graph]

    def graphExecDestroy(self, executable):
        del self.executables[executable]

    def cuStreamGetCaptureInfo_v2(self, stream, status, number, *outputs):
        assert outputs == (None, None, None)
        ctypes.c_int.from_address(status).value = 1 if stream in self.streams else 0
        ctypes.c_uint64.from_address(number).value = self.streams.get(stream, 77)
        return 0

    def cuThreadExchangeStreamCaptureMode(self, mode):
        found = ctypes.c_int.from_address(mode)
        found.value, self.mode = self.mode, found.value
        return 0

    def cuGraphGetNodes(self, graph, nodes, count):
        kinds = self.graphs[graph]
        ctypes.c_size_t.from_address(count).value = len(kinds)
        if nodes:
            for i, kind in enumerate(kinds):
                ctypes.c_void_p.from_address(nodes + 8 * i).value = 0xB0 + kind
        return 0

    def cuGraphNodeGetType(self, node, kind):
        ctypes.c_int.from_address(kind).value = node - 0xB0
        return 0


@pytest.fixture
def fake(monkeypatch):
    """Return (driver, fake CUDA): the real driver over fake CUDA bindings."""
    spec = importlib.util.spec_from_file_location("fake_cupy", Path(__file__).parent / "fake_cupy.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    modules, runtime = module.modules()
    for name, each in modules.items():
        monkeypatch.setitem(sys.modules, name, each)
    names = [f"triten.runtime.cuda.cupy.{name}" for name in OURS]
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    cuda = importlib.import_module(names[0]).CuPyDriver(2)
    seen = Capturing(runtime)
    monkeypatch.setattr(sys.modules["triten.runtime.cuda.cupy.graph"], "_libcuda", lambda: seen)
    yield cuda, seen
    for name in names:
        sys.modules.pop(name, None)


def test_captures_are_told_apart_by_either_version_of_the_call(fake, monkeypatch):
    """Accept a driver that has only the third version of cuStreamGetCaptureInfo, which has one output more."""
    cuda, seen = fake
    before = type(seen).cuStreamGetCaptureInfo_v2

    def third(self, stream, status, number, *outputs):
        assert outputs == (None,) * 4
        return before(self, stream, status, number, *outputs[1:])

    stream = cuda.create_stream(0)
    cuda.begin_capture(stream)
    wanted = cuda.capture_status(stream), cuda.capture_id(stream)
    monkeypatch.delattr(type(seen), "cuStreamGetCaptureInfo_v2")
    monkeypatch.setattr(type(seen), "cuStreamGetCaptureInfo_v3", third, raising=False)
    assert (cuda.capture_status(stream), cuda.capture_id(stream)) == wanted == ("active", wanted[1])
    cuda.end_capture(stream)
    assert cuda.capture_status(stream) == "none"


@pytest.mark.parametrize(("mode", "number"), [("global", 0), ("thread_local", 1), ("relaxed", 2)])
def test_a_graph_from_capture_to_launch(fake, mode, number):
    cuda, seen = fake
    stream, other = cuda.create_stream(0), cuda.create_stream(0)
    cuda.begin_capture(stream, mode)
    assert cuda.is_capturing(stream) and not cuda.is_capturing(other) and not cuda.is_capturing(0)
    assert (cuda.capture_id(stream), cuda.capture_id(other)) == (0x100, 0)
    graph = cuda.end_capture(stream)
    assert not cuda.is_capturing(stream) and not cuda.captures_underway
    executable = cuda.instantiate_graph(graph)
    cuda.destroy_graph(graph)
    before = cuda.launches
    cuda.launch_graph(executable, other)
    cuda.launch_graph(executable, 0)
    assert cuda.launches == before + 4, "two kernels in each; a copy is none"
    cuda.destroy_executable(executable)
    assert not seen.graphs and not seen.executables
    assert seen.log == [
        ("begin", stream, number),
        ("end", stream),
        ("instantiate", graph),
        ("launch", executable, other),
        ("launch", executable, 0),
    ]


def test_what_needs_no_cuda_to_refuse_never_reaches_it(fake):
    cuda, seen = fake
    stream = cuda.create_stream(0)
    for use, message in (
        (lambda: cuda.begin_capture(0), "default stream cannot be captured"),
        (lambda: cuda.begin_capture(stream, "strict"), "Unknown capture error mode"),
        (lambda: cuda.end_capture(stream), "cannot be performed in the present state"),
        (lambda: cuda.instantiate_graph(1), "invalid resource handle"),
        (lambda: cuda.launch_graph(1, stream), "invalid resource handle"),
        (lambda: cuda.destroy_graph(1), "invalid resource handle"),
        (lambda: cuda.destroy_executable(1), "invalid resource handle"),
        (lambda: cuda.print_graph(1, "x"), "invalid resource handle"),
    ):
        with pytest.raises(RuntimeError, match=message):
            use()
    assert not seen.log


@pytest.mark.parametrize(
    ("status", "goes_on"), [(INVALIDATED, False), (UNMATCHED, True), (WRONG_THREAD, True)]
)
def test_a_failed_end(fake, status, goes_on):
    cuda, seen = fake
    stream = cuda.create_stream(0)
    cuda.begin_capture(stream)
    seen.fails_with = status
    with pytest.raises(RuntimeError, match=str(status)):
        cuda.end_capture(stream)
    assert bool(cuda.captures_underway) == cuda.is_capturing(stream) == goes_on
    seen.fails_with = 0
    if not goes_on:
        cuda.begin_capture(stream)
    assert cuda.end_capture(stream) in seen.graphs


def test_the_thread_says_that_its_calls_are_safe_only_during_captures(fake):
    cuda, seen = fake
    stream = cuda.create_stream(0)
    with relaxed_capture(cuda):
        assert seen.mode == 0
    cuda.begin_capture(stream)
    assert cuda.unsafe_calls_prohibited()
    with relaxed_capture(cuda):
        assert (seen.mode, cuda.unsafe_calls_prohibited()) == (2, False)
        others = []
        thread = threading.Thread(target=lambda: others.append(cuda.unsafe_calls_prohibited()))
        thread.start()
        thread.join()
        assert others == [True]
    assert (seen.mode, cuda.unsafe_calls_prohibited()) == (0, True)
    cuda.end_capture(stream)
