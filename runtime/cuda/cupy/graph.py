"""Capture and graphs of the CuPy driver: CuPy's runtime calls, and libcuda calls that CuPy lacks.

CuPy's `streamIsCapturing` cannot distinguish captures, and CuPy lacks `cudaThreadExchangeStreamCaptureMode`. Both
come from libcuda, which shares streams and graphs with the runtime.
"""

from __future__ import annotations

import ctypes
import threading
from functools import cache
from typing import Any

from ..capture import (
    ILLEGAL_STATE,
    MODES,
    STATUSES,
    UNSUPPORTED,
    CaptureMode,
    CaptureStatus,
    StreamCapture,
    Underway,
    capture_error,
    checked_mode,
)
from .errors import runtime

CAPTURE_UNMATCHED, CAPTURE_WRONG_THREAD = 903, 908
KERNEL_NODE = 0
VERBOSE = 1


@cache
def _libcuda() -> ctypes.CDLL:
    """Return libcuda with the types of the functions used here."""
    library = ctypes.CDLL("libcuda.so.1")
    pointer = ctypes.c_void_p
    function, unwanted = _capture_function(library)
    function.argtypes = [pointer] * (3 + unwanted)
    library.cuThreadExchangeStreamCaptureMode.argtypes = [pointer]
    library.cuGraphGetNodes.argtypes = [pointer] * 3
    library.cuGraphNodeGetType.argtypes = [pointer] * 2
    return library


def _capture_function(library: ctypes.CDLL) -> tuple[Any, int]:
    """Return `cuStreamGetCaptureInfo` and its number of nullable outputs: a driver may only have version 3."""
    second = getattr(library, "cuStreamGetCaptureInfo_v2", None)
    return (second, 3) if second is not None else (library.cuStreamGetCaptureInfo_v3, 4)


def _check(status: int) -> None:
    if status:
        raise runtime.CUDARuntimeError(status)


def capture_info(stream: int) -> tuple[CaptureStatus, int]:
    """Return (status, id) of a stream's capture; the id is 0 unless the capture is active."""
    if stream == 0:
        return "none", 0
    status, number = ctypes.c_int(0), ctypes.c_uint64(0)
    function, unwanted = _capture_function(_libcuda())
    code = function(stream, ctypes.addressof(status), ctypes.addressof(number), *[None] * unwanted)
    _check(code)
    capture_status = STATUSES[status.value]
    return capture_status, number.value if capture_status == "active" else 0


def count_kernels(graph: int) -> int:
    """Return the number of kernel nodes in a graph."""
    library = _libcuda()
    count = ctypes.c_size_t(0)
    _check(library.cuGraphGetNodes(graph, None, ctypes.addressof(count)))
    if not count.value:
        return 0
    nodes = (ctypes.c_void_p * count.value)()
    code = library.cuGraphGetNodes(graph, ctypes.addressof(nodes), ctypes.addressof(count))
    _check(code)
    kind = ctypes.c_int(0)
    kernels = 0
    for node in nodes:
        _check(library.cuGraphNodeGetType(node, ctypes.addressof(kind)))
        kernels += kind.value == KERNEL_NODE
    return kernels


class CuPyCapture(StreamCapture):
    """Capture and graphs of CuPy's driver."""

    launches: int
    graph_launches: int

    def __init__(self) -> None:
        super().__init__()
        self._kernels: dict[int, int] = {}
        """Number of kernels in each graph and each executable."""

    def begin_capture(self, stream: int, mode: CaptureMode = "global") -> None:
        number = MODES.index(checked_mode(mode))
        if stream == 0:
            raise capture_error(UNSUPPORTED, "the default stream cannot be captured")
        # Call it before the capture begins, so that its functions have been looked up.
        _libcuda()
        runtime.streamBeginCapture(stream, number)
        self.captures_underway[stream] = Underway(mode, threading.get_ident())

    def end_capture(self, stream: int) -> int:
        if stream not in self.captures_underway and self.capture_status(stream) == "none":
            raise capture_error(ILLEGAL_STATE, f"stream {stream:#x} is not capturing")
        goes_on = False
        try:
            graph = int(runtime.streamEndCapture(stream))
        except runtime.CUDARuntimeError as error:
            goes_on = error.status in (CAPTURE_UNMATCHED, CAPTURE_WRONG_THREAD)
            raise
        finally:
            if not goes_on:
                self.captures_underway.pop(stream, None)
        self._kernels[graph] = count_kernels(graph)
        return graph

    def capture_status(self, stream: int) -> CaptureStatus:
        return capture_info(stream)[0]

    def capture_id(self, stream: int) -> int:
        return capture_info(stream)[1]

    def exchange_capture_mode(self, mode: CaptureMode) -> CaptureMode:
        before = super().exchange_capture_mode(mode)
        number = ctypes.c_int(MODES.index(mode))
        code = _libcuda().cuThreadExchangeStreamCaptureMode(ctypes.addressof(number))
        _check(code)
        return before

    def _kernels_of(self, handle: int) -> int:
        # CUDA treats handles as addresses, and may not detect an invalid one.
        num_kernels = self._kernels.get(handle)
        if num_kernels is None:
            raise RuntimeError(f"CUDA error: invalid resource handle: graph {handle:#x}")
        return num_kernels

    def instantiate_graph(self, graph: int) -> int:
        kernels = self._kernels_of(graph)
        executable = int(runtime.graphInstantiate(graph))
        self._kernels[executable] = kernels
        return executable

    def launch_graph(self, executable: int, stream: int) -> None:
        kernels = self._kernels_of(executable)
        runtime.graphLaunch(executable, stream)
        self.launches += kernels
        self.graph_launches += 1

    def destroy_graph(self, graph: int) -> None:
        self._kernels_of(graph)
        del self._kernels[graph]
        runtime.graphDestroy(graph)

    def destroy_executable(self, executable: int) -> None:
        self._kernels_of(executable)
        del self._kernels[executable]
        runtime.graphExecDestroy(executable)

    def print_graph(self, graph: int, path: str) -> None:
        self._kernels_of(graph)
        runtime.graphDebugDotPrint(graph, path, VERBOSE)
