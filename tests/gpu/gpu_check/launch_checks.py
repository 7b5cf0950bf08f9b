"""Launches: what was found about them without a GPU, point by point, on the card."""

from __future__ import annotations

import ctypes
import statistics
import struct
import threading
import time
from typing import Any

import numpy as np

import triten as tt
from triten.runtime.cuda.driver import is_simulated

from .device_memory import DeviceMemory, compiled, probes
from .first_checks import NeedsACard, NotBuilt, agree, check, fresh_numbers, is_rehearsal, require

BLOCK = 256
ADD = {"a": "*fp32", "b": "*fp32", "out": "*fp32", "n": "i32"}
DEFAULT_SHARED = 48 * 1024
PROGRAMMATIC_STREAM_SERIALIZATION = 6
ELEMENT_TYPES = {8: 10, 9: 8, 10: 9}
INTERLEAVE_NONE, L2_PROMOTION_128B, FILL_ZERO = 0, 2, 0


def numbers(count: int) -> np.ndarray[Any, Any]:
    return fresh_numbers().standard_normal(count).astype(np.float32)


def capability() -> int:
    major, minor = tt.cuda.get_device_capability()
    return major * 10 + minor


def need(least: int) -> None:
    if capability() < least:
        raise NeedsACard(
            f"of capability {least // 10}.{least % 10} or newer, this one has {capability() / 10}"
        )


class Raw:
    """A cubin loaded by CuPy and launched with nothing of triten's driver in between."""

    def __init__(
        self, kernel: Any, signature: dict[str, str], constants: dict[str, object], **options: Any
    ) -> None:
        import cupy
        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        names = kernel.arg_names
        divisible = [name for name, kind in signature.items() if kind.startswith("*") or name in "MNK"]
        self.binary = triton.compile(
            ASTSource(
                kernel,
                {name: signature.get(name, "constexpr") for name in names},
                {(i,): constants[name] for i, name in enumerate(names) if name in constants},
                {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if name in divisible},
            ),
            target=GPUTarget("cuda", capability(), 32),
            options={"enable_fp_fusion": False, **options},
        )
        self.metadata = self.binary.metadata
        cupy.cuda.Device(tt.cuda.current_device()).use()
        self._module = cupy.cuda.Module()
        self._module.load(self.binary.asm["cubin"])
        self.function = self._module.get_function(self.metadata.name).ptr
        if self.metadata.shared > DEFAULT_SHARED:
            cupy.cuda.driver.funcSetAttribute(self.function, 8, self.metadata.shared)

    def launch(self, grid: tuple[int, int, int], stream: int, format_: str, *values: Any) -> None:
        """Launch through `cupy.cuda.driver.launchKernel`, with arguments packed at their natural alignment."""
        from cupy.cuda import driver

        buffer, table = packed(format_, values)
        driver.launchKernel(
            self.function, grid[0] * self.metadata.num_ctas, grid[1], grid[2], 32 * self.metadata.num_warps, 1, 1,
            self.metadata.shared, stream, ctypes.addressof(table), 0,
        )  # fmt: skip
        del buffer


def packed(format_: str, values: tuple[Any, ...]) -> tuple[Any, Any]:
    """Pack arguments into a buffer, with the table of pointers into it; add the two scratch pointers."""
    codes = [*format_, "Q", "Q"]
    layout = "@" + "".join(codes)
    buffer = ctypes.create_string_buffer(struct.calcsize(layout))
    struct.pack_into(layout, buffer, 0, *values, 0, 0)
    offsets = []
    for i, code in enumerate(codes):
        before = struct.calcsize("@" + "".join(codes[:i]))
        size = struct.calcsize("@" + code)
        offsets.append(before + -before % size)
    base = ctypes.addressof(buffer)
    return buffer, (ctypes.c_void_p * len(codes))(*(base + offset for offset in offsets))


class Attribute(ctypes.Structure):
    """CUlaunchAttribute, 72 bytes."""

    _fields_ = (("id", ctypes.c_uint), ("pad", ctypes.c_uint), ("value", ctypes.c_uint * 16))


class Configuration(ctypes.Structure):
    """CUlaunchConfig, 56 bytes."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint),
    )  # fmt: skip


def libcuda() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def succeeded(status: int, call: str) -> None:
    require(status == 0, f"{call} returned CUresult {status}")


@check("launch: CuPy's Module.load and launchKernel give right results", on_a_card=True)
def module_load() -> str:
    n = 100_003
    kernel = Raw(probes.add, ADD, {"BLOCK": BLOCK})
    a, b = numbers(n), numbers(n)
    with DeviceMemory() as memory:
        out = memory.empty(a.nbytes)
        kernel.launch((-(-n // BLOCK), 1, 1), 0, "QQQi", memory.put(a), memory.put(b), out, n)
        agree(memory.get(out, a), a + b, "a + b")
    return f"{n} elements"


@check("launch: triten's driver gives right results")
def own_launch() -> str:
    n = 1003
    kernel = compiled(probes.add, ADD, {"BLOCK": BLOCK})
    a, b = numbers(n), numbers(n)
    with DeviceMemory() as memory:
        out = memory.empty(a.nbytes)
        kernel.launch((-(-n // BLOCK), 1, 1), 0, memory.put(a), memory.put(b), out, n)
        agree(memory.get(out, a), a + b, "a + b")
        memory.cuda.memset(out, 0, a.nbytes, 0)
        kernel.launch((0, 1, 1), 0, memory.put(a), memory.put(b), out, n)
        agree(memory.get(out, a), 0 * a, "a grid of zero")
    return f"{n} elements, and a grid of zero launches nothing"


@check("launch: more than 48 KB of shared memory", on_a_card=True)
def much_shared_memory() -> str:
    m, n, k = 256, 256, 512
    signature = {"a": "*fp16", "b": "*fp16", "out": "*fp32", "M": "i32", "N": "i32", "K": "i32"}
    blocks = {"BM": 128, "BN": 128, "BK": 64}
    kernel = compiled(
        probes.product, signature, blocks, divisible=frozenset(signature), num_warps=8, num_stages=4
    )
    shared = Raw(probes.product, signature, blocks, num_warps=8, num_stages=4).metadata.shared
    require(shared > DEFAULT_SHARED, f"the kernel takes {shared} bytes only: the check shows nothing")
    rng = fresh_numbers()
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((m, k), (k, n)))
    expected = (a.astype(np.float32) @ b.astype(np.float32)).astype(np.float32)
    with DeviceMemory() as memory:
        out = memory.empty(expected.nbytes)
        kernel.launch((m // 128, n // 128, 1), 0, memory.put(a), memory.put(b), out, m, n, k)
        agree(memory.get(out, expected), expected, "a product of whole numbers")
    return f"{shared} bytes"


@check("launch: num_ctas=2 by the plain launch", on_a_card=True)
def two_ctas() -> str:
    need(90)
    n = 10_007
    kernel = Raw(probes.add, ADD, {"BLOCK": BLOCK}, num_ctas=2)
    require(kernel.metadata.num_ctas == 2, f"the compiler made it {kernel.metadata.num_ctas}")
    a, b = numbers(n), numbers(n)
    with DeviceMemory() as memory:
        out = memory.empty(a.nbytes)
        kernel.launch((-(-n // BLOCK), 1, 1), 0, "QQQi", memory.put(a), memory.put(b), out, n)
        agree(memory.get(out, a), a + b, "a + b in clusters of two")
    return "clusters of two blocks"


@check("launch: the PDL attribute, through cuLaunchKernelEx", on_a_card=True)
def dependent_launch() -> str:
    need(90)
    n, rounds = 1 << 20, 50
    kernel = Raw(
        probes.increment_after_dependency, {"x": "*fp32", "n": "i32"}, {"BLOCK": 1024}, launch_pdl=True
    )
    zeros = np.zeros(n, np.float32)
    library = libcuda()
    with DeviceMemory() as memory:
        stream = memory.cuda.create_stream(memory.index)
        x = memory.put(zeros)
        buffer, table = packed("Qi", (x, n))
        attribute = Attribute(id=PROGRAMMATIC_STREAM_SERIALIZATION)
        attribute.value[0] = 1
        configuration = Configuration(
            (ctypes.c_uint * 3)(n // 1024, 1, 1), (ctypes.c_uint * 3)(32 * kernel.metadata.num_warps, 1, 1),
            kernel.metadata.shared, stream, ctypes.pointer(attribute), 1,
        )  # fmt: skip
        for _ in range(rounds):
            status = library.cuLaunchKernelEx(
                ctypes.byref(configuration), ctypes.c_void_p(kernel.function), ctypes.byref(table), None
            )
            succeeded(status, "cuLaunchKernelEx")
        memory.cuda.synchronize_stream(stream)
        agree(memory.get(x, zeros), zeros + rounds, "increments that depend on each other")
        del buffer
    return f"{rounds} dependent launches"


@check("launch: a TMA descriptor by value", on_a_card=True)
def tma_parameter() -> str:
    need(90)
    rows, columns, block = 256, 192, 64
    signature = {"source": f"tensordesc<fp16[{block}, {block}]>", "out": "*fp16", "N": "i32"}
    kernel = Raw(probes.copy_tiles, signature, {"BM": block, "BN": block})
    told = kernel.metadata.tensordesc_meta[0]
    values = fresh_numbers().standard_normal((rows, columns)).astype(np.float16)
    with DeviceMemory() as memory:
        source, out = memory.put(values), memory.empty(values.nbytes)
        room = ctypes.create_string_buffer(128 + 64)
        descriptor = ctypes.addressof(room) + -ctypes.addressof(room) % 64
        sizes = (ctypes.c_uint64 * 2)(columns, rows)
        strides = (ctypes.c_uint64 * 2)(columns * told["elem_size"], rows * columns * told["elem_size"])
        box = (ctypes.c_uint32 * 2)(*reversed(told["block_size"]))
        steps = (ctypes.c_uint32 * 2)(1, 1)
        kind = ELEMENT_TYPES.get(told["elem_type"], told["elem_type"])
        status = libcuda().cuTensorMapEncodeTiled(
            ctypes.c_void_p(descriptor), kind, 2, ctypes.c_void_p(source), sizes, strides, box, steps,
            INTERLEAVE_NONE, told["swizzle"], L2_PROMOTION_128B, FILL_ZERO,
        )  # fmt: skip
        succeeded(status, "cuTensorMapEncodeTiled")
        # descriptor, its shape and strides, out, N, and the two scratch pointers
        arguments: list[Any] = [
            ctypes.c_int32(rows), ctypes.c_int32(columns), ctypes.c_int64(columns), ctypes.c_int64(1),
            ctypes.c_uint64(out), ctypes.c_int32(columns), ctypes.c_uint64(0), ctypes.c_uint64(0),
        ]  # fmt: skip
        table = (ctypes.c_void_p * (1 + len(arguments)))(descriptor, *map(ctypes.addressof, arguments))
        from cupy.cuda import driver

        driver.launchKernel(
            kernel.function, rows // block, columns // block, 1, 32 * kernel.metadata.num_warps, 1, 1,
            kernel.metadata.shared, 0, ctypes.addressof(table), 0,
        )  # fmt: skip
        agree(memory.get(out, values), values, "tiles copied through the descriptor")
    return f"box {list(box)}, swizzle {told['swizzle']}, element type {told['elem_type']} -> {kind}"


@check("launch: capture and replay", on_a_card=True)
def capture_and_replay() -> str:
    import cupy

    n, replays = 10_000, 5
    kernel = Raw(probes.add, ADD, {"BLOCK": BLOCK})
    a, b = numbers(n), np.ones(n, np.float32)
    with DeviceMemory() as memory:
        x, one = memory.put(a), memory.put(b)
        stream = cupy.cuda.Stream(non_blocking=True)
        stream.begin_capture()
        kernel.launch((-(-n // BLOCK), 1, 1), stream.ptr, "QQQi", x, one, x, n)
        graph = stream.end_capture()
        agree(memory.get(x, a), a, "before the first replay")
        for _ in range(replays):
            graph.launch(stream)
        stream.synchronize()
        expected = a.copy()
        for _ in range(replays):
            expected += b
        agree(memory.get(x, a), expected, f"after {replays} replays")
    return f"{replays} replays"


@check("launch: cubins of this Triton's ptxas load on this driver", on_a_card=True)
def cubins_load() -> str:
    import triton
    from cupy.cuda import runtime

    kernel = Raw(probes.add, ADD, {"BLOCK": BLOCK})
    text = kernel.binary.asm["ptx"]
    version = next(line for line in text.split("\n") if line.startswith(".version"))
    return (
        f"Triton {triton.__version__}, PTX{version.removeprefix('.version')}, sm_{capability()}, "
        f"a driver for CUDA {runtime.driverGetVersion()}"
    )


def cost_of(call: Any) -> float:
    """Measure a call's host microseconds: the median over rounds that start with an idle device."""
    rounds, repetitions = (2, 3) if is_rehearsal() else (15, 200)
    times = []
    for _ in range(rounds):
        tt.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(repetitions):
            call()
        times.append((time.perf_counter() - started) / repetitions * 1e6)
    return statistics.median(times)


@check("launch: what one costs")
def cost_of_a_launch() -> str:
    n = 1024
    names = ["a", "b", "out", "n", "p", "q", "r", "s", "t"]
    signature = dict(zip(names, ["*fp32"] * 3 + ["i32"] + ["fp32"] * 5, strict=True))
    kernel = compiled(probes.nine_arguments, signature, {"BLOCK": BLOCK})
    with DeviceMemory() as memory:
        a, b, out = (memory.put(numbers(n)) for _ in range(3))
        values = (a, b, out, n, 1.0, 2.0, 3.0, 4.0, 5.0)

        def call() -> None:
            kernel.launch((n // BLOCK, 1, 1), 0, *values)

        call()
        told = f"{cost_of(call):.2f} us of host time for 9 arguments by triten's driver"
        if not is_simulated():
            raw = Raw(probes.nine_arguments, signature, {"BLOCK": BLOCK})

            def bare() -> None:
                raw.launch((n // BLOCK, 1, 1), 0, "QQQifffff", *values)

            bare()
            told += f", {cost_of(bare):.2f} packed anew at each launch"
    return told


@check("launch: the ctypes fallback of triten's driver", on_a_card=True)
def ctypes_fallback() -> str:
    try:
        from triten.runtime.cuda.cupy.libcuda import ctypes_launch_kernel
    except ImportError:
        raise NotBuilt("there is no triten.runtime.cuda.cupy.libcuda.ctypes_launch_kernel") from None
    n = 5003
    kernel = Raw(probes.add, ADD, {"BLOCK": BLOCK})
    a, b = numbers(n), numbers(n)
    with DeviceMemory() as memory:
        out = memory.empty(a.nbytes)
        buffer, table = packed("QQQi", (memory.put(a), memory.put(b), out, n))
        ctypes_launch_kernel()(
            kernel.function, -(-n // BLOCK), 1, 1, 32 * kernel.metadata.num_warps, 1, 1, kernel.metadata.shared, 0,
            ctypes.addressof(table), 0,
        )  # fmt: skip
        agree(memory.get(out, a), a + b, "a + b")
        del buffer
    return f"{n} elements"


@check("launch: cuLaunchKernel through ctypes", on_a_card=True)
def launch_through_ctypes() -> str:
    n = 5003
    kernel = Raw(probes.add, ADD, {"BLOCK": BLOCK})
    a, b = numbers(n), numbers(n)
    with DeviceMemory() as memory:
        out = memory.empty(a.nbytes)
        buffer, table = packed("QQQi", (memory.put(a), memory.put(b), out, n))
        status = libcuda().cuLaunchKernel(
            ctypes.c_void_p(kernel.function), -(-n // BLOCK), 1, 1, 32 * kernel.metadata.num_warps, 1, 1,
            kernel.metadata.shared, ctypes.c_void_p(0), ctypes.byref(table), None,
        )  # fmt: skip
        succeeded(status, "cuLaunchKernel")
        agree(memory.get(out, a), a + b, "a + b")
        del buffer
    return f"{n} elements"


@check("launch: from threads that never touched the device")
def from_threads() -> str:
    n, count = 1000, 8
    kernel = compiled(probes.add, ADD, {"BLOCK": BLOCK})
    errors: list[BaseException] = []
    with DeviceMemory() as memory:
        inputs = [(numbers(n), numbers(n)) for _ in range(count)]
        places = [(memory.put(a), memory.put(b), memory.empty(a.nbytes)) for a, b in inputs]

        def work(place: tuple[int, int, int]) -> None:
            try:
                for _ in range(20):
                    kernel.launch((-(-n // BLOCK), 1, 1), 0, *place, n)
            except Exception as error:  # brought to the thread that waits
                errors.append(error)

        threads = [threading.Thread(target=work, args=(place,)) for place in places]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        for (a, b), (_, _, out) in zip(inputs, places, strict=True):
            agree(memory.get(out, a), a + b, "a + b in a thread")
    return f"{count} threads"


@check("launch: torch stays out")
def torch_stays_out() -> str:
    import sys

    tt.ones(4, device="cuda").sum().item()
    require(sys.modules.get("torch") is None, "something imported torch")
    try:
        import torch
    except ImportError:
        return "its import is blocked, and nothing asked for it"
    raise AssertionError(f"torch {torch.__version__} was imported")
