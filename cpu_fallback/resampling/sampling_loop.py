"""Loops that sample images at given positions, and their gradients: a block of positions for all channels.

A block's taps are computed once, into the workspace: their offsets in a plane, -1 for those outside, and their weights.
Then the loop visits the channels. It adds in the order of NumPy's passes:

- A sample adds its taps in order, rows before columns.
- The gradient of an element adds its positions in order, and the taps of each.
- The gradient of a coordinate first adds the channels of each tap, then the taps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ...dispatch.structured.meta.grid_sampler import BILINEAR, BORDER, NEAREST
from ...runtime.cpu.calling_convention import HEADER
from ...runtime.cpu.code import FloatCode, module_calls
from ...runtime.cpu.object_code import loop_function

BLOCK = 128
"""Positions of a block. Their taps stay in the first-level cache."""
NUMBERS = (
    *("sample", "sample_end", "first", "last", "begin", "end", "positions", "channels", "height", "width"),
    *("image_n", "image_c", "image_h", "image_w"),
)
"""Numbers of a part: its ranges of samples, positions and channels, all positions and channels, the size of an image,
and its strides.
"""
GRADIENT_NUMBERS = (*NUMBERS, "of_input", "of_grid")
"""Further numbers: 1 for a part of the image's gradient, which has all positions, and of the grid's, which has all
channels.
"""
FAR = {"float": "2147483648.0", "double": "2147483646.0"}
"""Bound of the positions that an index holds."""
OUTSIDE = "-100.0"
OFFSETS, WEIGHTS, SHARES, SIDES, RATES = 0, 4, 8, 12, 16
"""First rows of the workspace: offsets and weights of the taps; for the grid's gradient, sums over channels, weights of
(y, x) on either side, and derivatives of (y, x).
"""
ROWS = 18
WORKSPACE = ROWS * BLOCK * 8
"""Bytes of the workspace."""
INTRINSICS = (
    "declare i64 @llvm.smin.i64(i64, i64)\ndeclare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n"
    + "".join(
        f"declare {kind} @llvm.{name}.{suffix}({kind})\n"
        for name in ("floor", "rint", "fabs")
        for kind, suffix in (("float", "f32"), ("double", "f64"))
    )
)


class Kind(NamedTuple):
    """Kind of a loop: the dtype's name, the modes, and whether the outermost elements' centers are at -1 and 1."""

    dtype: str
    interpolation: int
    padding: int
    align_corners: bool

    @property
    def taps(self) -> int:
        """Elements that a sample is interpolated from."""
        return {BILINEAR: 4, NEAREST: 1}[self.interpolation]


class _Sampling(FloatCode):
    """Body of a loop over blocks of positions.

    Args:
        kind: The kind of the loop.
        names: Names of its numbers.
        arrays: Pointers to the image, the grid and the workspace.
        has_slopes: If True, the taps include what the grid's gradient needs. Default: False.
    """

    def __init__(
        self, kind: Kind, names: tuple[str, ...], arrays: tuple[str, str, str], has_slopes: bool = False
    ) -> None:
        super().__init__(kind.dtype)
        self.mode, self.has_slopes = kind, has_slopes
        self.n = self.numbers("%g", names)
        self.image, self.grid, self.workspace = arrays
        self.itemsize = 4 if self.kind == "float" else 8
        self.sample = ""
        self.size, self.last, self.stride, self.size_i32 = [], [], [], []
        for size, stride in (("height", "image_h"), ("width", "image_w")):
            last = self.new(f"sub i64 {self.n[size]}, 1")
            self.size.append(self.new(f"sitofp i64 {self.n[size]} to {self.kind}"))
            self.last.append(self.new(f"sitofp i64 {last} to {self.kind}"))
            self.size_i32.append(self.new(f"trunc i64 {self.n[size]} to i32"))
            self.stride.append(self.new(f"trunc i64 {self.n[stride]} to i32"))

    def of(self, name: str, a: str, b: str) -> str:
        """Emit an operation of two numbers of the dtype."""
        return self.new(f"{name} {self.kind} {a}, {b}")

    def call(self, name: str, value: str) -> str:
        """Emit the call of an intrinsic."""
        suffix = "f32" if self.kind == "float" else "f64"
        return self.new(f"call {self.kind} @llvm.{name}.{suffix}({self.kind} {value})")

    def chosen(self, condition: str, a: str, b: str) -> str:
        """Emit a choice between two numbers of the dtype."""
        return self.new(f"select i1 {condition}, {self.kind} {a}, {self.kind} {b}")

    def row(self, number: int) -> str:
        """Emit the pointer to a row of the workspace."""
        return self.at("i8", self.workspace, str(number * BLOCK * 8))

    def position(self, coordinate: str, d: int) -> tuple[str, str]:
        """Emit the position of a coordinate along the rows (0) or columns (1), and its derivative."""
        size, last = self.size[d], self.last[d]
        x = self.of("fadd", coordinate, "1.0")
        if self.mode.align_corners:
            x, speed = self.of("fmul", self.of("fmul", x, "0.5"), last), self.of("fmul", last, "0.5")
        else:
            x = self.of("fmul", self.of("fsub", self.of("fmul", x, size), "1.0"), "0.5")
            speed = self.of("fmul", size, "0.5")
        if self.mode.padding == BORDER:
            is_positive = self.new(f"fcmp ogt {self.kind} {x}, 0.0")
            is_before_last = self.new(f"fcmp olt {self.kind} {x}, {last}")
            moving = self.new(f"and i1 {is_positive}, {is_before_last}")
            x = self.chosen(is_positive, x, "0.0")
            is_less = self.new(f"fcmp olt {self.kind} {x}, {last}")
            return self.chosen(is_less, x, last), self.chosen(moving, speed, "0.0")
        is_near = self.new(f"fcmp olt {self.kind} {self.call('fabs', x)}, {FAR[self.kind]}")
        return self.chosen(is_near, x, OUTSIDE), speed

    @contextlib.contextmanager
    def each_sample(self) -> Iterator[None]:
        """Emit the loop over the part's samples."""
        with self.loop(self.n["sample"], self.n["sample_end"]) as self.sample:
            yield

    def coordinates(self, position: str) -> str:
        """Emit the index of a position's x in the contiguous grid; that of y is the next one."""
        return self.mul(self.add(self.mul(self.sample, self.n["positions"]), position), "2")

    def store_taps(self, first: str, count: str) -> None:
        """Store the taps of `count` positions from `first` on to the workspace."""
        rows = [self.row(j) for j in range(ROWS)]
        with self.loop("0", count) as q:
            at = self.coordinates(self.add(first, q))
            indices, inside, weights = [], [], []
            for d in range(2):
                coordinate = self.value(self.grid, at if d else self.add(at, "1"))
                position, rate = self.position(coordinate, d)
                is_linear = self.mode.interpolation == BILINEAR
                low = self.call("floor" if is_linear else "rint", position)
                index = self.new(f"fptosi {self.kind} {low} to i32")
                both = [index, self.new(f"add i32 {index}, 1")] if is_linear else [index]
                indices.append([self.new(f"mul i32 {each}, {self.stride[d]}") for each in both])
                inside.append([self.new(f"icmp ult i32 {each}, {self.size_i32[d]}") for each in both])
                part = self.of("fsub", position, low)
                weights.append([self.of("fsub", "1.0", part), part] if is_linear else ["1.0"])
                if self.has_slopes and is_linear:
                    self.store(rate, rows[RATES + d], q)
                    for k in range(2):
                        self.store(weights[d][k], rows[SIDES + 2 * d + k], q)
            sides = len(indices[0])
            for i in range(sides):
                for j in range(sides):
                    offset = self.new(f"add i32 {indices[0][i]}, {indices[1][j]}")
                    exists = self.new(f"and i1 {inside[0][i]}, {inside[1][j]}")
                    tap = i * sides + j
                    self.store(
                        self.new(f"select i1 {exists}, i32 {offset}, i32 -1"), rows[OFFSETS + tap], q, "i32"
                    )
                    if sides > 1:
                        self.store(self.of("fmul", weights[0][i], weights[1][j]), rows[WEIGHTS + tap], q)

    def weighted(self, value: str, tap: int, q: str) -> str:
        """Emit the product of a number with a tap's weight."""
        if self.mode.taps == 1:
            return value
        return self.of("fmul", value, self.value(self.row(WEIGHTS + tap), q))

    def tap(self, tap: int, q: str) -> tuple[str, str]:
        """Emit whether a tap is inside, and its offset in a plane, 0 if it is not."""
        offset = self.value(self.row(OFFSETS + tap), q, "i32")
        exists = self.new(f"icmp sge i32 {offset}, 0")
        safe = self.new(f"select i1 {exists}, i32 {offset}, i32 0")
        return exists, self.new(f"sext i32 {safe} to i64")

    def blocks(self, body: Callable[[str, str], None]) -> None:
        """Emit `body` of the first position and the number of positions of each block, after its taps."""
        with self.loop(self.n["first"], self.n["last"], BLOCK) as first:
            left = self.new(f"sub i64 {self.n['last']}, {first}")
            count = self.new(f"call i64 @llvm.smin.i64(i64 {left}, i64 {BLOCK})")
            self.store_taps(first, count)
            body(first, count)

    def plane(self, channel: str) -> str:
        """Emit the pointer to a plane of the image."""
        sample = self.mul(self.sample, self.n["image_n"])
        return self.at(self.kind, self.image, self.add(sample, self.mul(channel, self.n["image_c"])))

    def line(self, array: str, channel: str, first: str) -> str:
        """Emit the pointer to a channel's element at a position, in a contiguous array."""
        row = self.add(self.mul(self.sample, self.n["channels"]), channel)
        return self.at(self.kind, array, self.add(self.mul(row, self.n["positions"]), first))

    def text(self, arrays: int, written: tuple[int, ...]) -> str:
        """Return the module of a loop with this many arrays, of which some are written."""
        pointers = [
            f"ptr noalias nocapture {'' if j in written else 'readonly '}%p{j}" for j in range(arrays)
        ]
        body = self.function("loop", ", ".join(["ptr nocapture readonly %g", *pointers]), "noinline nounwind")
        return HEADER + INTRINSICS + body + module_calls("loop", arrays + 1)


def sample_text(kind: Kind) -> str:
    """Return the module of ``loop(numbers, out, image, grid, workspace)``; out and grid are contiguous."""
    code = _Sampling(kind, NUMBERS, ("%p1", "%p2", "%p3"))

    def block(first: str, count: str) -> None:
        with code.loop(code.n["begin"], code.n["end"]) as channel:
            plane, out = code.plane(channel), code.line("%p0", channel, first)
            with code.loop("0", count) as q:
                total = "0.0"
                for tap in range(kind.taps):
                    exists, offset = code.tap(tap, q)
                    element = code.chosen(exists, code.value(plane, offset), "0.0")
                    total = code.of("fadd", total, code.weighted(element, tap, q))
                code.store(total, out, q)

    with code.each_sample():
        code.blocks(block)
    return code.text(4, (0, 3))


def gradient_text(kind: Kind) -> str:
    """Return the module of ``loop(numbers, of_input, of_grid, grad, image, grid, workspace)``.

    All arrays are contiguous. A part writes a gradient only if its numbers say so, and reads the image only for the
    grid's.
    """
    code = _Sampling(kind, GRADIENT_NUMBERS, ("%p3", "%p4", "%p5"), has_slopes=True)
    n = code.n
    area = code.mul(n["height"], n["width"])
    of_input, of_grid = (code.new(f"icmp ne i64 {n[name]}, 0") for name in ("of_input", "of_grid"))

    def gradient_plane(channel: str) -> str:
        row = code.add(code.mul(code.sample, n["channels"]), channel)
        return code.at(code.kind, "%p0", code.mul(row, area))

    def to_input(first: str, count: str) -> None:
        with code.loop(n["begin"], n["end"]) as channel:
            plane, grad = gradient_plane(channel), code.line("%p2", channel, first)
            with code.loop("0", count) as q:
                value = code.value(grad, q)
                for tap in range(kind.taps):
                    exists, offset = code.tap(tap, q)
                    with code.when(exists):
                        old = code.value(plane, offset)
                        code.store(code.of("fadd", old, code.weighted(value, tap, q)), plane, offset)

    def to_grid(first: str, count: str) -> None:
        shares = [code.row(SHARES + tap) for tap in range(kind.taps)]
        with code.loop("0", count) as q:
            for share in shares:
                code.store("0.0", share, q)
        with code.loop("0", n["channels"]) as channel:
            plane, grad = code.plane(channel), code.line("%p2", channel, first)
            with code.loop("0", count) as q:
                value = code.value(grad, q)
                for tap, share in enumerate(shares):
                    exists, offset = code.tap(tap, q)
                    product = code.of("fmul", code.value(plane, offset), value)
                    product = code.chosen(exists, product, "0.0")
                    code.store(code.of("fadd", code.value(share, q), product), share, q)
        with code.loop("0", count) as q:
            sides = [[code.value(code.row(SIDES + 2 * d + k), q) for k in range(2)] for d in range(2)]
            rates = [code.value(code.row(RATES + d), q) for d in range(2)]
            totals = ["0.0", "0.0"]
            for tap, share in enumerate(shares):
                value = code.value(share, q)
                for d in range(2):
                    k, other = (tap // 2, tap % 2) if d == 0 else (tap % 2, tap // 2)
                    slope = rates[d] if k else code.new(f"fneg {code.kind} {rates[d]}")
                    factor = code.of("fmul", slope, sides[1 - d][other])
                    totals[d] = code.of("fadd", totals[d], code.of("fmul", value, factor))
            at = code.coordinates(code.add(first, q))
            code.store(totals[1], "%p1", at)
            code.store(totals[0], "%p1", code.add(at, "1"))

    def block(first: str, count: str) -> None:
        with code.when(of_input):
            to_input(first, count)
        if kind.interpolation == BILINEAR:
            with code.when(of_grid):
                to_grid(first, count)

    with code.each_sample():
        with code.when(of_input), code.loop(n["begin"], n["end"]) as channel:
            size = code.mul(area, str(code.itemsize))
            code.do(
                f"call void @llvm.memset.p0.i64(ptr {gradient_plane(channel)}, i8 0, i64 {size}, i1 false)"
            )
        code.blocks(block)
    return code.text(6, (0, 1, 5))


def sample_loop(kind: Kind) -> Callable[..., None]:
    """Return the loop of `sample_text`."""
    return loop_function(sample_text(kind))


def gradient_loop(kind: Kind) -> Callable[..., None]:
    """Return the loop of `gradient_text`."""
    return loop_function(gradient_text(kind))
