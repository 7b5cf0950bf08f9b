"""Plants faults into compiled kernels and their launches, and prints a line for each: found, or not.

Run in a process of its own with ``TRITEN_CUDA=emulate``; with ``TRITEN_EMULATE=90`` kernels are those of sm_90, and the
faults are of its tensor maps, barriers in shared memory and products by four warps, with ``100`` those of sm_100 and of
its tensor memory. A fault counts as found where the emulator raises, or where the result is not the CPU's any more.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import triten as tt
from triten.runtime.cuda.emulator import kernel as emulated
from triten.runtime.cuda.emulator import tensor_maps
from triten.runtime.cuda.emulator.fault import EmulationError
from triten.runtime.cuda.emulator.machine import Program
from triten.runtime.cuda.emulator.ptx import parse
from triten.triton_kernels.attention import forward
from triten.triton_kernels.products import tensor_memory
from triten.triton_kernels.reduction import stream_counters

RNG = np.random.default_rng(3)
DEVICE = os.environ.get("TRITEN_EMULATE") or "80"


def numbers(*sizes: int, dtype: Any = tt.float32) -> Any:
    return tt.from_numpy(RNG.standard_normal(sizes).astype(np.float32)).to(dtype)


F = tt.nn.functional
tt.backends.cudnn.allow_tf32 = False
CALLS: dict[str, tuple[str, Callable[..., Any], list[Any]]] = {
    "add": ("dense", lambda a, b: a + b, [numbers(1111), numbers(1111)]),
    "strided add": ("tiles", lambda a, b: a.t() + b, [numbers(137, 153), numbers(153, 137)]),
    "softmax": ("softmax", lambda a: tt.softmax(a, 1), [numbers(5, 3001)]),
    "sum of rows": ("reduce", lambda a: a.sum(1), [numbers(37, 1030)]),
    "sum of all": ("reduce", lambda a: a.sum(), [numbers(60_001)]),
    "sum of columns": ("reduce", lambda a: a.sum(0), [numbers(1030, 137)]),
    "layer_norm": (
        "normalise_rows",
        lambda a, w: F.layer_norm(a, (777,), w),
        [numbers(9, 777), numbers(777)],
    ),
    "cumsum": ("prefix_scan", lambda a: a.cumsum(1), [numbers(7, 3000)]),
    "mm": ("matmul", tt.mm, [numbers(100, 72), numbers(72, 90)]),
    "mm of halves": ("matmul", tt.mm, [numbers(96, 64, dtype=tt.float16), numbers(64, 80, dtype=tt.float16)]),
    "largest of rows": ("extreme_with_index", lambda a: a.max(1).indices, [numbers(33, 500)]),
    "sort": ("sort_rows", lambda a: a.sort(1).values, [numbers(5, 300)]),
    "embedding": ("pick_runs", lambda i, t: F.embedding(i, t), [tt.tensor([3, 0, 9, 5, 5]), numbers(10, 37)]),
    "conv2d": ("convolve", lambda x, w: F.conv2d(x, w), [numbers(2, 5, 9, 9), numbers(6, 5, 3, 3)]),
    "var": ("reduce_moments", lambda a: a.var(1), [numbers(13, 901)]),
}


def halves(*sizes: int) -> Any:
    return numbers(*sizes, dtype=tt.bfloat16)


def pictures(*sizes: int) -> Any:
    return halves(*sizes).to(memory_format=tt.channels_last)


CALLS_BY_UNITS: dict[str, tuple[str, Callable[..., Any], list[Any]]] = {
    "mm": ("matmul_persistent", tt.mm, [halves(100, 328), halves(328, 88)]),
    "attention": (
        "attention_bulk",
        F.scaled_dot_product_attention,  # of few queries, which the warp-specialised kernel leaves to this one
        [halves(1, 1, 64, 64), halves(1, 1, 160, 64), halves(1, 1, 160, 64)],
    ),
    "conv2d": (
        "convolve_bulk",
        lambda x, w: F.conv2d(x, w, padding=1),
        [pictures(1, 64, 9, 9), pictures(64, 64, 3, 3)],
    ),
}

Mutant = Callable[[str], str | None]


def nth(pattern: str, change: Callable[[re.Match[str]], str], number: int) -> Mutant:
    """A change of the number-th match of a pattern; None where there is none. Negative numbers count from the end."""

    def mutate(text: str) -> str | None:
        found = list(re.finditer(pattern, text))
        if not -len(found) <= number < len(found):
            return None
        match = found[number]
        return text[: match.start()] + change(match) + text[match.end() :]

    return mutate


WIDE = r"(mad|mul)\.wide\.(s32|u32) \t(%rd\d+, %r\d+), (\d+)"
WAIT = r"cp\.async\.wait_group \t(\d+)"
TEXT: dict[str, list[Mutant]] = {
    "missing barrier": [nth(r"bar\.sync \t0;", lambda m: "", i) for i in (-1, 0)],
    "missing mask of a load": [nth(r"@%p\d+ (ld\.global|cp\.async\.c[ag])", lambda m: m[1], -1)],
    "missing mask of a store": [nth(r"@%p\d+ (st\.global)", lambda m: m[1], -1)],
    "wrong stride": [nth(WIDE, lambda m: f"{m[1]}.wide.{m[2]} \t{m[3]}, {int(m[4]) * 2}", 0)],
    "wrong offset of a store": [nth(r"(st\.global\.\S+ \[ %rd\d+) \+ 0", lambda m: f"{m[1]} + 8", 0)],
    "wrong place in shared memory": [nth(r"(ld\.shared\.\S+ \t[^;]*\[%r\d+)\]", lambda m: f"{m[1]}+128]", 0)],
    "bounds off by one": [lambda text: re.sub(r"setp\.lt\.s(32|64)", r"setp.le.s\1", text)],
    "wait for too few copies": [nth(WAIT, lambda m: f"cp.async.wait_group \t{int(m[1]) + 2}", 0)],
    "atomic operation without an order": [lambda text: re.sub(r"(atom\.\S*?)acq_rel", r"\1relaxed", text)],
    "wrong partner": [nth(r"(shfl\.sync\.bfly\.b32 \t[^;]*?), 16, 31", lambda m: f"{m[1]}, 8, 31", 0)],
}


def without(pattern: str, *numbers: int) -> list[Mutant]:
    """Changes that leave a match out."""
    return [nth(pattern, lambda m: "", number) for number in numbers]


def without_barriers(first: int | str) -> Mutant:
    """A change that leaves out all barriers of whole blocks from a place on: the compiler puts more than are needed."""

    def mutate(text: str) -> str:
        at = first if isinstance(first, int) else max(text.find(first), 0)
        return text[:at] + re.sub(r"bar\.sync \t0;", "", text[at:])

    return mutate


AWAITED = r"mbarrier\.try_wait\.parity\.\S+ complete, (\[%r\d+\]), (%r\d+);\s*@!complete bra\.uni waitLoop;"
EXPECTED = r"mbarrier\.arrive\.expect_tx\.(\S+) _, (\[%r\d+\]), (\d+);"
LOADED = r"(@%p\d+) (cp\.async\.bulk\.tensor\.\dd\.shared\S+) \[(%r\d+)\], (\[%rd\d+, \{)(%r\d+), (%r\d+)"
STORED = r"(cp\.async\.bulk\.tensor\.\dd\.global\S+ \[%rd\d+, \{)(%r\d+), (%r\d+)"
DESCRIPTOR = r"or\.b64 \t(%rd\d+), (%rd\d+), (\d{18,});"
PRODUCT = r"(wgmma\.mma_async[^;]*\}, %rd\d+, %rd\d+, )([^;]*?), 1, 1, (\d), (\d);"


def waited_with(parity: str) -> Callable[[re.Match[str]], str]:
    """The wait of a match with another parity."""
    return lambda m: m[0].replace(f"{m[1]}, {m[2]};", f"{m[1]}, {parity};")


TEXT_BY_UNITS: dict[str, list[Mutant]] = {
    "missing wait for a bulk copy": without(AWAITED, 0, -1),
    "wrong parity": [nth(AWAITED, waited_with(parity), i) for parity in ("0", "1") for i in (0, -1)],
    "fewer bytes expected": [
        nth(EXPECTED, lambda m: m[0].replace(f", {m[3]};", f", {int(m[3]) // 2};"), i) for i in (0, -1)
    ],
    "more bytes expected": [
        nth(EXPECTED, lambda m: m[0].replace(f", {m[3]};", f", {int(m[3]) + 16};"), i) for i in (0, -1)
    ],
    "no bytes expected": [nth(EXPECTED, lambda m: f"mbarrier.arrive.{m[1]} _, {m[2]};", i) for i in (0, -1)],
    "nothing expected": without(r"@%p\d+ mbarrier\.arrive\.expect_tx[^;]*;", 0, -1),
    "barrier that is not made": without(r"@%p\d+ mbarrier\.init[^;]*;", 0, -1),
    "barrier for two": [nth(r"(mbarrier\.init\S+ \[%r\d+\]), 1;", lambda m: f"{m[1]}, 2;", 0)],
    "missing proxy fence": [
        *without(r"fence\.proxy\.async[^;]*;", 0, -1),
        lambda t: re.sub(r"fence\.proxy[^;]*;", "", t),
    ],
    "missing wait for products": without(r"wgmma\.wait_group[^;]*;", 0, -2, -1),
    "wait for too few products": [
        nth(
            r"wgmma\.wait_group\.sync\.aligned (\d)",
            lambda m: f"wgmma.wait_group.sync.aligned {int(m[1]) + 1}",
            i,
        )
        for i in (0, -2)
    ],
    "missing commit of products": without(r"wgmma\.commit_group[^;]*;", 0, -1),
    "missing fence of registers": without(r"wgmma\.fence[^;]*;", 0, -1),
    "missing barriers": [without_barriers(first) for first in (0, "wgmma", "stmatrix")],
    "missing wait for stores": [
        *without(r"cp\.async\.bulk\.wait_group[^;]*;", 0, -1),
        lambda t: re.sub(r"cp\.async\.bulk\.wait_group[^;]*;", "", t),
    ],
    "missing commit of stores": without(r"cp\.async\.bulk\.commit_group;", 0),
    "coordinates exchanged": [
        *(nth(LOADED, lambda m: f"{m[1]} {m[2]} [{m[3]}], {m[4]}{m[6]}, {m[5]}", i) for i in (0, -1)),
        nth(STORED, lambda m: f"{m[1]}{m[3]}, {m[2]}", -1),
    ],
    "wrong place in shared memory": [
        nth(LOADED, lambda m: f"{m[1]} {m[2]} [{m[3]}+1024], {m[4]}{m[5]}, {m[6]}", i) for i in (0, -1)
    ],
    "misaligned place in shared memory": [
        nth(LOADED, lambda m: f"{m[1]} {m[2]} [{m[3]}+16], {m[4]}{m[5]}, {m[6]}", 0)
    ],
    "copy by every thread": [nth(LOADED, lambda m: m[0].removeprefix(m[1]), i) for i in (0, -1)],
    "wrong swizzle": [
        nth(DESCRIPTOR, lambda m: f"or.b64 {m[1]}, {m[2]}, {int(m[3]) ^ 3 << 62};", i) for i in (0, -1)
    ],
    "wrong stride of a descriptor": [
        nth(DESCRIPTOR, lambda m: f"or.b64 {m[1]}, {m[2]}, {int(m[3]) ^ 1 << 38};", 0)
    ],
    "operand turned round": [nth(PRODUCT, lambda m: f"{m[1]}{m[2]}, 1, 1, {m[3]}, {1 - int(m[4])};", 0)],
    "sums dropped": [nth(PRODUCT, lambda m: f"{m[1]}0, 1, 1, {m[3]}, {m[4]};", -1)],
}


CALLS_OF_TENSOR_MEMORY: dict[str, tuple[str, Callable[..., Any], list[Any]]] = {
    # Three tiles in two places, and more steps than the ring has.
    "mm": ("matmul_tensor_memory", tt.mm, [halves(72, 200), halves(200, 328)]),
    "attention": (
        "attention_tensor_memory",
        F.scaled_dot_product_attention,
        [halves(1, 1, 136, 64), halves(1, 1, 136, 64), halves(1, 1, 136, 64)],
    ),
}

COMMIT = r"@%p\d+ tcgen05\.commit[^;]*;"
ANY_PRODUCT = r"@%p\d+ tcgen05\.mma[^;]*;"
PRODUCT_OF_A_THREAD = r"(@%p\d+ tcgen05\.mma[^;]*?, %r\d+), %p\d+;"
ADDRESS = r"(\[ ?%r\d+ \+ )(\d+)"


def with_address(name: str, change: Callable[[int], int], which: int = 0) -> Callable[[int], Mutant]:
    """A change of the which-th address of an instruction of a name."""

    def mutant(number: int) -> Mutant:
        def changed(m: re.Match[str]) -> str:
            found = list(re.finditer(ADDRESS, m[0]))[which]
            return m[0][: found.start()] + found[1] + str(change(int(found[2]))) + m[0][found.end() :]

        return nth(rf"tcgen05\.{name}\b[^;]*;", changed, number)

    return mutant


TEXT_OF_TENSOR_MEMORY: dict[str, list[Mutant]] = {
    "missing commit": without(COMMIT, 0, 1, -1),
    "missing wait": without(AWAITED, 0, 1, 2, -3, -2, -1),
    "wrong parity": [nth(AWAITED, waited_with(parity), i) for parity in ("0", "1") for i in (0, 1, -2, -1)],
    "missing wait for loads": [
        lambda t: re.sub(r"tcgen05\.wait::ld[^;]*;", "", t),
        *without(r"tcgen05\.wait::ld[^;]*;", -1),
    ],
    "missing wait for stores": [
        lambda t: re.sub(r"tcgen05\.wait::st[^;]*;", "", t),
        *without(r"tcgen05\.wait::st[^;]*;", -1),
    ],
    "wrong column of a load": [with_address("ld", lambda at: at + 8)(i) for i in (0, -1)],
    "lanes of another warp": [with_address("ld", lambda at: at + (32 << 16))(0)],
    "wrong column of a store": [with_address("st", lambda at: at + 8)(i) for i in (0, -1)],
    "wrong column of sums": [with_address("mma", lambda at: at + 32)(i) for i in (0, -1)],
    "wrong column of weights": [with_address("mma", lambda at: at + 8, 1)(-5)],
    "fewer columns": [lambda t: re.sub(r"(tcgen05\.(?:de)?alloc[^;]*, )512;", r"\g<1>256;", t)],
    "missing deallocation": [lambda t: re.sub(r"@%p\d+ tcgen05\.dealloc[^;]*;", "", t)],
    "another number of columns freed": [
        nth(r"(tcgen05\.dealloc[^;]*, )(\d+);", lambda m: f"{m[1]}{int(m[2]) // 2};", i) for i in (0, -1)
    ],
    "missing allocation": without(r"@%p\d+ tcgen05\.alloc[^;]*;", 0),
    "products left out": without(r"@%p\d+ tcgen05\.mma[^;]*;", 0, 1, -1),
    "products by every thread": [nth(r"@%p\d+ tcgen05\.mma", lambda m: "tcgen05.mma", i) for i in (0, -1)],
    "sums that are always added to": [
        nth(PRODUCT_OF_A_THREAD, lambda m: f"{{ .reg .pred q; setp.eq.b32 q, 0, 0; {m[1]}, q; }}", 0)
    ],
    "commit before the products": [nth(rf"((?:{ANY_PRODUCT}[^@]*)+)({COMMIT})", lambda m: m[2] + m[1], -1)],
    "fewer bytes expected": [
        nth(EXPECTED, lambda m: m[0].replace(f", {m[3]};", f", {int(m[3]) // 2};"), i) for i in (0, -1)
    ],
    "missing proxy fence": [
        *without(r"fence\.proxy\.async[^;]*;", 1, -1),
        lambda t: re.sub(r"fence\.proxy[^;]*;", "", t),
    ],
    "missing barriers of a group": [lambda t: re.sub(r"bar\.sync \t\d+, 128;", "", t)],
    "missing wait for stores to memory": [lambda t: re.sub(r"cp\.async\.bulk\.wait_group[^;]*;", "", t)],
    "barrier for one more": [
        nth(r"(mbarrier\.init\S+ \[%r\d+\]), (\d);", lambda m: f"{m[1]}, {int(m[2]) + 1};", i)
        for i in (0, -1)
    ],
    "other types": [
        nth(r"mov\.b32 \t(%r\d+), (13\d{7});", lambda m: f"mov.b32 {m[1]}, {int(m[2]) ^ 1 << 7};", i)
        for i in (0, -1)
    ],
    "operand turned round": [
        nth(r"mov\.b32 \t(%r\d+), (13\d{7});", lambda m: f"mov.b32 {m[1]}, {int(m[2]) ^ 1 << 16};", i)
        for i in (0, -1)
    ],
    "wrong swizzle": [
        nth(r"mov\.b32 \t(%r\d+), 1073758272;", lambda m: f"mov.b32 {m[1]}, {1073758272 ^ 3 << 30};", 0)
    ],
    "coordinates exchanged": [
        nth(LOADED, lambda m: f"{m[1]} {m[2]} [{m[3]}], {m[4]}{m[6]}, {m[5]}", i) for i in (0, -1)
    ],
}


FEWER_FOR_ATTENTION = (
    *("missing wait", "wrong parity", "missing wait for loads", "missing wait for stores", "fewer columns"),
    *("wrong column of a store", "wrong column of weights", "missing commit", "commit before the products"),
    *("missing barriers of a group", "missing proxy fence"),
)
"""What is planted into the longer one of both kernels."""


def changed_maps() -> dict[str, Callable[[Any, Any, bytes], tuple[Any, bytes]]]:
    """Changes of the tensor maps of a launch."""

    def with_map(change: Callable[[dict[str, Any]], dict[str, Any]], which: int = 0) -> Any:
        def changed(kernel: Any, grid: Any, packed: bytes) -> tuple[Any, bytes]:
            at = [m.start() for m in re.finditer(re.escape(tensor_maps.MARK), packed)][which]
            given = tensor_maps.decode(packed[at : at + 128])._asdict()
            new = given | change(given)
            made = tensor_maps.encode(
                new["type"],
                new["address"],
                new["sizes"],
                new["pitches"][1:],
                new["box"],
                new["steps"],
                0,
                new["swizzle"],
            )
            return grid, packed[:at] + made + packed[at + 128 :]

        return changed

    def smaller_box(given: dict[str, Any]) -> dict[str, Any]:
        sides = list(given["box"])
        i = max(i for i, side in enumerate(sides) if side > 1)
        sides[i] //= 2
        return {"box": tuple(sides)}

    def larger(given: dict[str, Any]) -> dict[str, Any]:
        return (
            {"sizes": (*given["sizes"][:-1], given["sizes"][-1] + 1)}
            if given["sizes"][-1] > 1
            else {"sizes": (given["sizes"][0], given["sizes"][1] + 64, *given["sizes"][2:])}
        )

    def shorter(given: dict[str, Any]) -> dict[str, Any]:
        return {"sizes": (given["sizes"][0] // 2, *given["sizes"][1:])}

    def other_swizzle(given: dict[str, Any]) -> dict[str, Any]:
        return {"swizzle": 0}

    def elsewhere(given: dict[str, Any]) -> dict[str, Any]:
        return {"address": given["address"] + 16}

    def wider(given: dict[str, Any]) -> dict[str, Any]:
        return {"pitches": (given["pitches"][0], given["pitches"][1] + 16, *given["pitches"][2:])}

    changes = {
        "box of half the size": smaller_box,
        "tensor that is larger than its memory": larger,
        "tensor that is shorter": shorter,
        "map without a swizzle": other_swizzle,
        "map of the next 16 bytes": elsewhere,
        "wrong pitch of a map": wider,
    }
    return {
        f"{name}, {'last' if which else 'first'} map": with_map(change, which)
        for name, change in changes.items()
        for which in (0, -1)
    }


def changed_launches() -> dict[str, Callable[[Any, Any, bytes], tuple[Any, bytes]]]:
    """Changes of a launch: (kernel, grid, packed parameters) to another grid and other parameters."""

    def pointers(kernel: Any) -> list[int]:
        types = kernel._binary.parameter_types
        return [kernel._layout.offsets[i] for i, name in enumerate(types) if name.startswith("*")]

    def exchanged(kernel: Any, grid: Any, packed: bytes) -> tuple[Any, bytes]:
        first, *_, last = pointers(kernel)
        a, b = packed[first : first + 8], packed[last : last + 8]
        found = bytearray(packed)
        found[first : first + 8], found[last : last + 8] = b, a
        return grid, bytes(found)

    def moved(kernel: Any, grid: Any, packed: bytes) -> tuple[Any, bytes]:
        at = pointers(kernel)[0]
        value = int.from_bytes(packed[at : at + 8], "little") + 4
        return grid, packed[:at] + value.to_bytes(8, "little") + packed[at + 8 :]

    def smaller(kernel: Any, grid: Any, packed: bytes) -> tuple[Any, bytes]:
        return (grid[0] - 1, grid[1], grid[2]), packed

    def stale(kernel: Any, grid: Any, packed: bytes) -> tuple[Any, bytes]:
        at = pointers(kernel)[0]
        memory = kernel._driver.memory(0)
        address = memory.malloc(1 << 20)
        return grid, packed[:at] + address.to_bytes(8, "little") + packed[at + 8 :]

    return {
        "exchanged arguments": exchanged,
        "address that is not aligned": moved,
        "a block too few": smaller,
        "memory of no block": stale,
    }


class Planter:
    """One call, its kernel, and whether what is planted there is found."""

    def __init__(self, name: str) -> None:
        self.kernel_name, self.function, arguments = TABLES[DEVICE][0][name]
        self.arguments = arguments
        with np.errstate(all="ignore"):
            self.expected = self.function(*arguments).double().numpy()
        self.kernel: Any = None
        self.text = ""

    def run(self) -> np.ndarray[Any, Any]:
        found: np.ndarray[Any, Any] = (
            self.function(*[a.cuda() for a in self.arguments]).cpu().double().numpy()
        )
        return found

    def is_right(self) -> bool:
        found = self.run()
        tolerance = 2e-2 if self.arguments[0].dtype.itemsize == 2 else 2e-4
        return found.shape == self.expected.shape and np.allclose(found, self.expected, tolerance, tolerance)

    def find_kernel(self) -> None:
        """Run the call as it is, and note its kernel."""
        before = emulated.EmulatedKernel._run

        def noted(kernel: Any, *rest: Any) -> None:
            if kernel.name == self.kernel_name:
                self.kernel = kernel
            before(kernel, *rest)

        emulated.EmulatedKernel._run = noted  # type: ignore[method-assign]
        try:
            right = self.is_right()
        finally:
            emulated.EmulatedKernel._run = before  # type: ignore[method-assign]
        if not right or self.kernel is None:
            raise RuntimeError(f"{self.kernel_name}: wrong without a fault, or not launched")
        self.text = self.kernel._binary.asm["ptx"]

    def with_text(self, text: str) -> str:
        """How a changed text is found."""
        program = self.kernel._program
        try:
            self.kernel._program = Program(parse(text), self.kernel.name, program._addresses)
            return self.outcome()
        finally:
            self.kernel._program = program

    def with_launch(self, change: Callable[[Any, Any, bytes], tuple[Any, bytes]]) -> str:
        """How a changed launch is found."""
        before, wanted = emulated.EmulatedKernel._run, self.kernel

        def changed(kernel: Any, grid: Any, packed: bytes, *rest: Any) -> None:
            if kernel is wanted:
                grid, packed = change(kernel, grid, packed)
                if 0 in grid:
                    return
            before(kernel, grid, packed, *rest)

        emulated.EmulatedKernel._run = changed  # type: ignore[method-assign]
        try:
            return self.outcome()
        finally:
            emulated.EmulatedKernel._run = before  # type: ignore[method-assign]

    def outcome(self) -> str:
        """What came of it."""
        # A kernel with a fault may leave its counters as they were; on a GPU its context is lost with them.
        for counters in stream_counters._counters.values():
            counters._by_stream.clear()
        try:
            return "" if self.is_right() else "the result is wrong"
        except EmulationError as error:
            tt.cuda.synchronize()
            return str(error)


def planted(name: str) -> Iterator[tuple[str, str]]:
    """Each fault of a call, and how it was found; nothing where it was not."""
    planter = Planter(name)
    planter.find_kernel()
    _, texts, launches = TABLES[DEVICE]
    for fault, mutants in texts.items():
        if name == "attention" and DEVICE == "100" and fault not in FEWER_FOR_ATTENTION:
            continue
        for i, mutate in enumerate(mutants):
            text = mutate(planter.text)
            if text is not None and text != planter.text:
                yield f"{fault} {i}", planter.with_text(text)
    for fault, change in launches().items():
        yield fault, planter.with_launch(change)


TABLES: dict[str, tuple[Any, Any, Callable[[], dict[str, Any]]]] = {
    "80": (CALLS, TEXT, changed_launches),
    "90": (CALLS_BY_UNITS, TEXT_BY_UNITS, changed_maps),
    "100": (CALLS_OF_TENSOR_MEMORY, TEXT_OF_TENSOR_MEMORY, dict),
}
"""By the device: calls, faults of their kernels' texts, and of their launches."""


def choose_small_tiles() -> None:
    """Let the kernels with tensor memory serve small calls, a program of two tiles each."""
    forward.LEAST_SPAN = 1 << 20
    tensor_memory.LEAST_WAVES = 0
    tensor_memory.multiprocessors = lambda device: 1  # type: ignore[assignment]
    tensor_memory.TILES = {itemsize: tiles[-1:] for itemsize, tiles in tensor_memory.TILES.items()}


if __name__ == "__main__":
    if DEVICE == "100":
        choose_small_tiles()
    for call in sys.argv[1:] or TABLES[DEVICE][0]:
        for fault, found in planted(call):
            print(json.dumps({"call": call, "fault": fault, "found": found[:300]}), flush=True)
