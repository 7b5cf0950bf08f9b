"""Execution of the stand-in's work: functions that its C sources call instead of a device.

Every function returns CUDA's code. A fault of executed work is written to stderr and kept in
`ExecutedDevices.findings`. The call that waits for the work and every later call return the fault's code, as
on hardware.
"""

from __future__ import annotations

import atexit
import ctypes
import sys
from collections.abc import Callable
from ctypes import (
    POINTER,
    c_char_p,
    c_float,
    c_int,
    c_size_t,
    c_uint,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from functools import partial
from typing import Any

from triten.runtime.cuda import capture
from triten.runtime.cuda.capture import MODES
from triten.runtime.cuda.emulator.machine import Launch
from triten.runtime.cuda.emulator.tensor_maps import encode
from triten.runtime.cuda.simulated.memory import LiveBlocks
from triten.tests.runtime.cuda.standin.executed_devices import UNKNOWN, ExecutedDevices
from triten.tests.runtime.cuda.standin.loaded_images import (
    MADE_UP,
    ImageError,
    LoadedImage,
    read,
)

SUCCESS, INVALID_VALUE, INVALID_IMAGE, NOT_FOUND, NOT_READY = 0, 1, 200, 500, 600
PAGEABLE, PINNED, ON_DEVICE, REGISTERED = range(4)
REFUSALS = {
    "invalid argument": 1,
    "invalid resource handle": 400,
    capture.UNSUPPORTED: 900,
    capture.INVALIDATED: 901,
    capture.MERGE: 902,
    capture.UNMATCHED: 903,
    capture.UNJOINED: 904,
    capture.ISOLATION: 905,
    capture.IMPLICIT: 906,
    capture.CAPTURED_EVENT: 907,
    capture.WRONG_THREAD: 908,
    capture.ILLEGAL_STATE: 401,
}
"""What the simulated driver says of a call that it refuses, and CUDA's code of it."""
HANDLE = c_void_p
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "load": (HANDLE, c_int, c_void_p, c_size_t),
    "unload": (HANDLE,),
    "describe": (
        *(HANDLE, HANDLE, c_char_p, POINTER(c_int), POINTER(c_uint16), POINTER(c_uint16)),
        *(POINTER(c_int), POINTER(c_int)),
    ),
    "launch": (
        *(HANDLE, HANDLE, c_int, POINTER(c_uint), POINTER(c_uint), c_uint),
        *(c_void_p, c_size_t),
    ),
    "copy": (c_uint64, c_int, c_uint64, c_int, c_size_t, HANDLE, c_int),
    "fill": (c_uint64, c_int, c_size_t, HANDLE, c_int),
    "call_host": (HANDLE, c_int, c_void_p, c_void_p),
    "allocated": (c_uint64, c_size_t, c_int, c_int),
    "freed": (c_uint64, c_int, c_int),
    "new_stream": (HANDLE, c_int, c_uint, c_int),
    "drop_stream": (HANDLE,),
    "synchronise": (HANDLE, c_int),
    "query": (HANDLE, c_int),
    "synchronise_device": (c_int,),
    "hold": (HANDLE, c_int),
    "new_event": (HANDLE, c_int, c_int),
    "drop_event": (HANDLE,),
    "record": (HANDLE, HANDLE, c_int),
    "wait": (HANDLE, c_int, HANDLE),
    "ask_event": (HANDLE, c_int),
    "elapsed": (HANDLE, HANDLE, POINTER(c_float)),
    "begin_capture": (HANDLE, c_int, c_int),
    "end_capture": (HANDLE, c_int, HANDLE),
    "instantiate": (HANDLE, HANDLE),
    "launch_graph": (HANDLE, HANDLE, c_int),
    "drop_graph": (HANDLE,),
    "encode_map": (
        *(c_void_p, c_int, c_uint, c_uint64, POINTER(c_uint64), POINTER(c_uint64)),
        *(POINTER(c_uint32), POINTER(c_uint32), c_int, c_int, c_int),
    ),
}
"""The fields of `Executor` in standin.h, in order, with the types of their parameters."""


class Execution:
    """Executor of the work of this process's stand-in.

    Args:
        library: The stand-in.
        device_count: The number of its devices.
    """

    def __init__(self, library: ctypes.CDLL, device_count: int) -> None:
        self.library = library
        self.devices = ExecutedDevices(device_count)
        self._images: dict[int, LoadedImage | None] = {}
        self._kernels: dict[int, tuple[LoadedImage, str]] = {}
        self._functions = [
            ctypes.CFUNCTYPE(c_int, *types)(partial(self._answer, getattr(self, f"_{name}")))
            for name, types in FUNCTIONS.items()
        ]
        self._table = (c_void_p * len(FUNCTIONS))(*(ctypes.cast(f, c_void_p) for f in self._functions))
        library.standin_execute.argtypes = [c_void_p]
        library.standin_execute(ctypes.addressof(self._table))
        # Objects that are destroyed after Python's end have no owner any more.
        atexit.register(library.standin_execute, None)

    def follow_blocks(self) -> None:
        """Track the blocks that triten's allocator hands out as the live blocks of its segments."""
        from triten.runtime.cuda.cupy.driver import CuPyDriver

        devices, malloc = self.devices, CuPyDriver.malloc

        def followed(cuda: CuPyDriver, device: int, nbytes: int) -> int:
            devices.following.on = True
            try:
                return malloc(cuda, device, nbytes)
            finally:
                devices.following.on = False

        def note_allocated(_: CuPyDriver, address: int, nbytes: int, device: int, stream: int) -> None:
            devices.note_allocated(address, nbytes, device, stream)

        def note_freed(_: CuPyDriver, address: int, device: int, stream: int) -> None:
            devices.note_freed(address, device, stream)

        CuPyDriver.malloc = followed  # type: ignore[method-assign]
        CuPyDriver.note_allocated = note_allocated  # type: ignore[method-assign]
        CuPyDriver.note_freed = note_freed  # type: ignore[method-assign]

    def _answer(self, function: Callable[..., int | None], *arguments: Any) -> int:
        devices = self.devices
        try:
            return function(*arguments) or SUCCESS
        except ImageError as error:
            devices.findings.append(str(error))
            print(f"standin: {error}", file=sys.stderr, flush=True)
            return INVALID_IMAGE
        except Exception as error:
            if not devices.lost:
                code = next((c for text, c in REFUSALS.items() if f"CUDA error: {text}" in str(error)), 0)
                if code:
                    return code
                devices.lose(error)
            return self.library.standin_lose(devices.lost) or UNKNOWN

    # Images and launches

    def _load(self, module: int, device: int, image: int, nbytes: int) -> None:
        self.devices.on(device)
        if not nbytes:
            self._images[module] = None  # made up by a test
            return
        loaded = ctypes.string_at(image, nbytes)
        read_module = read(loaded)
        variables = self.devices.load_variables(read_module)
        self._images[module] = LoadedImage(device, loaded, read_module, variables)

    def _unload(self, module: int) -> None:
        image = self._images.pop(module)
        if image is not None:
            self.devices.drop_variables(image.device, list(image.variables.values()))

    def _describe(
        self,
        module: int,
        function: int,
        name: bytes,
        parameters: Any,
        sizes: Any,
        offsets: Any,
        threads: Any,
        shared: Any,
    ) -> int | None:
        image = self._images[module]
        assert image is not None
        kernel = name.decode()
        count = parameters[0]
        told = [(offsets[i], sizes[i]) for i in range(count)] if count >= 0 else None
        if told is None and kernel not in image.module.functions:
            return NOT_FOUND
        taken = image.check_parameters(kernel, told)
        for i, (offset, size) in enumerate(taken):
            offsets[i], sizes[i] = offset, size
        parameters[0] = len(taken)
        threads[0] = image.module.kernel(kernel).threads
        shared[0] = image.module.shared_size
        self._kernels[function] = image, kernel
        return None

    def _launch(
        self,
        function: int,
        stream: int | None,
        device: int,
        grid: Any,
        block: Any,
        shared: int,
        parameters: int,
        nbytes: int,
    ) -> None:
        found = self._kernels.get(function)
        if found is None:
            raise NotImplementedError(f"a kernel whose image is {MADE_UP.decode()!r} has no code")
        image, name = found
        if block[1] != 1 or block[2] != 1:
            raise NotImplementedError(
                f"kernel '{name}' in blocks of {tuple(block[:3])} threads: one dimension only"
            )
        devices, handle = self.devices, stream or 0
        devices.on(device)
        devices.order(handle, device)
        size = (grid[0], grid[1], grid[2])
        packed = ctypes.string_at(parameters, nbytes)
        work = partial(self._run, image, name, size, block[0], shared, packed)
        devices.launch_kernel(name, size, handle, work)

    def _run(
        self,
        image: LoadedImage,
        name: str,
        grid: tuple[int, int, int],
        threads: int,
        shared: int,
        packed: bytes,
        blocks: LiveBlocks,
    ) -> None:
        del blocks
        devices = self.devices
        memory = devices.mapped(image.device)
        launch = Launch(
            image.program(name), grid, threads, shared, packed, memory, devices.host_memory, devices.strict
        )
        launch.run()

    # Copies

    def _copy(
        self,
        target: int,
        target_is: int,
        source: int,
        source_is: int,
        nbytes: int,
        stream: int | None,
        device: int,
    ) -> None:
        devices, handle = self.devices, stream or 0
        devices.on(device)
        devices.order(handle, device)
        pinned = next(
            (a for a, w in ((source, source_is), (target, target_is)) if w in (PINNED, REGISTERED)), 0
        )
        captured = devices.stream(handle).capture is not None
        devices.copy(target, source, nbytes, handle, source_is == PAGEABLE and not captured, pinned)

    def _fill(self, target: int, value: int, nbytes: int, stream: int | None, device: int) -> None:
        self.devices.on(device)
        self.devices.order(stream or 0, device)
        self.devices.fill(target, value, nbytes, stream or 0)

    def _call_host(self, stream: int | None, device: int, call: int, data: int | None) -> None:
        self.devices.on(device)
        self.devices.order(stream or 0, device)
        work = partial(ctypes.CFUNCTYPE(None, c_void_p)(call), data)
        self.devices.stream(stream or 0).enqueue(work, "work", "host function")

    # Memory

    def _allocated(self, address: int, nbytes: int, where: int, device: int) -> None:
        if where == ON_DEVICE:
            self.devices.add_memory(address, nbytes, device)
        else:
            self.devices.register_host(address, nbytes, 0)

    def _freed(self, address: int, where: int, device: int) -> None:
        if where == ON_DEVICE:
            self.devices.drop_memory(address, device)
        else:
            self.devices.unregister_host(address)

    # Streams and events

    def _new_stream(self, stream: int, device: int, flags: int, priority: int) -> None:
        self.devices.add_stream(stream, device, flags, priority)

    def _drop_stream(self, stream: int) -> None:
        self.devices.destroy_stream(stream)

    def _synchronise(self, stream: int | None, device: int) -> None:
        self.devices.on(device)
        self.devices.order(stream or 0, device)
        self.devices.synchronize_stream(stream or 0)

    def _query(self, stream: int | None, device: int) -> int:
        self.devices.on(device)
        return SUCCESS if self.devices.query_stream(stream or 0) else NOT_READY

    def _synchronise_device(self, device: int) -> None:
        self.devices.synchronize(device)

    def _hold(self, stream: int, on: int) -> None:
        (self.devices.hold if on else self.devices.release)(stream)

    def _new_event(self, event: int, device: int, timing: int) -> None:
        self.devices.add_event(event, device, bool(timing))

    def _drop_event(self, event: int) -> None:
        self.devices.destroy_event(event)

    def _record(self, event: int, stream: int | None, device: int) -> None:
        self.devices.on(device)
        self.devices.order(stream or 0, device)
        self.devices.record_event(event, stream or 0)

    def _wait(self, stream: int | None, device: int, event: int) -> None:
        self.devices.on(device)
        self.devices.wait_event(stream or 0, event)

    def _ask_event(self, event: int, wait: int) -> int:
        if wait:
            self.devices.synchronize_event(event)
            return SUCCESS
        return SUCCESS if self.devices.query_event(event) else NOT_READY

    def _elapsed(self, start: int, end: int, milliseconds: Any) -> int:
        for event in (start, end):
            if not self.devices.query_event(event):
                return NOT_READY
        milliseconds[0] = self.devices.elapsed(start, end)
        return SUCCESS

    # Captures and graphs

    def _begin_capture(self, stream: int, device: int, mode: int) -> None:
        self.devices.on(device)
        self.devices.begin_capture(stream, MODES[mode])

    def _end_capture(self, stream: int, device: int, graph: int) -> None:
        self.devices.on(device)
        self.devices.finish_capture(stream, graph)

    def _instantiate(self, executable: int, graph: int) -> None:
        self.devices.make_executable(executable, graph)

    def _launch_graph(self, executable: int, stream: int | None, device: int) -> None:
        self.devices.on(device)
        self.devices.order(stream or 0, device)
        self.devices.launch_graph(executable, stream or 0)

    def _drop_graph(self, graph: int) -> None:
        self.devices.drop_graph(graph)

    # Tensor maps

    def _encode_map(
        self,
        target: int,
        type_: int,
        rank: int,
        address: int,
        sizes: Any,
        pitches: Any,
        box: Any,
        steps: Any,
        *modes: int,
    ) -> int:
        """Write a map as the emulator reads it; `modes` are those of interleaving, swizzling and filling."""
        try:
            made = encode(type_, address, sizes[:rank], pitches[: rank - 1], box[:rank], steps[:rank], *modes)
        except ValueError as error:
            print(f"standin: {error}", file=sys.stderr, flush=True)
            return INVALID_VALUE
        ctypes.memmove(target, made, len(made))
        return SUCCESS
