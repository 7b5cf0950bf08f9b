"""Kernels that the gate must find fault with, one way each, and one that it must let pass."""

import os
from pathlib import Path
from typing import NamedTuple

import triton
import triton.language as tl

import triten as tt
from triten.runtime.device import device
from triten.triton_kernels.budget import Configuration, declare
from triten.triton_kernels.launch import Launch


class Sample(NamedTuple):
    label: str
    run: object
    wide: tuple[str, ...] = ()
    refused: bool = False


def kernel_files():
    return {Path(__file__).stem: Path(__file__)}


def functions():
    return [good]


@tl.core.builtin
def end_the_process(_semantic=None):
    os.abort()


@triton.jit
def good(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i) + 1)


@triton.jit
def many_registers(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.load(x + i)
    tl.debug_barrier()
    tl.store(out + i, value)


@triton.jit
def spilling(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a = tl.load(x + i)
    b = tl.load(x + BLOCK + i)
    total = tl.sum(a * b)
    tl.store(out + i, a * total)
    tl.store(out + BLOCK + i, b / total)


@triton.jit
def scalar(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + 2 * i))


@triton.jit
def product(x, out, k, DOT: tl.constexpr, ROUNDING: tl.constexpr, BLOCK: tl.constexpr, INNER: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, INNER):
        inner = start + tl.arange(0, INNER)
        a = tl.load(x + rows[:, None] * 4096 + inner[None, :])
        b = tl.load(x + inner[:, None] * 4096 + rows[None, :])
        if DOT:
            total = tl.dot(a, b, total, input_precision=ROUNDING)
        else:
            total += (
                a[:, :1].to(tl.float32) * b[:1, :].to(tl.float32)
                if INNER == 1
                else tl.sum(a.to(tl.float32), 1)[:, None]
            )
    tl.store(out + rows[:, None] * BLOCK + rows[None, :], total.to(out.dtype.element_ty))


@triton.jit
def greedy(x, out, k, BLOCK: tl.constexpr, INNER: tl.constexpr):
    rows = tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK, BLOCK), tl.float32)
    for start in range(0, k, INNER):
        inner = start + tl.arange(0, INNER)
        a = tl.load(x + rows[:, None] * 4096 + inner[None, :])
        b = tl.load(x + inner[:, None] * 4096 + rows[None, :])
        total = tl.dot(a, b, total)
    tl.store(out + rows[:, None] * BLOCK + rows[None, :], total.to(out.dtype.element_ty))


@triton.jit
def aborting(x, out, BLOCK: tl.constexpr):
    end_the_process()
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i))


@triton.jit
def not_compiling(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + tl.arange(0, 2 * BLOCK)))


@triton.jit
def trapping(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.inline_asm_elementwise("trap; mov.b32 $0, $1;", "=r,r", [i], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(out + i, tl.load(x + i))


@triton.jit
def undeclared(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i))


@triton.jit
def unlaunched(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i))


TEXTS = {"why": "for the test", "operations": "none", "traffic": "none"}
LINE, SQUARE = Configuration((1024,)), Configuration((128,), 8, 3, 1)

declare(good, **TEXTS, dtypes=("fp32",), configurations=(LINE,), loads=("x",), stores=("out",))
declare(many_registers, warps=64, **TEXTS, dtypes=("fp32",), configurations=(Configuration((8192,)),))
declare(spilling, warps=1, **TEXTS, dtypes=("fp32",), configurations=(Configuration((16384,), 1),))
declare(scalar, **TEXTS, dtypes=("fp32",), configurations=(LINE,), loads=("x",), stores=("out",))
declare(
    product,
    **TEXTS,
    dtypes=("bf16", "fp32"),
    configurations=(SQUARE,),
    tensor_cores=("bf16",),
    exact=("fp32",),
)
declare(greedy, **TEXTS, dtypes=("bf16",), configurations=(Configuration((128,), 8, 8, 1),))
declare(aborting, **TEXTS, dtypes=("fp32",), configurations=(LINE,))
declare(not_compiling, **TEXTS, dtypes=("fp32",), configurations=(LINE,))
declare(trapping, **TEXTS, dtypes=("fp32",), configurations=(LINE,))
declare(unlaunched, **TEXTS, dtypes=("fp32",), configurations=(LINE,), loads=("x",))


def launch(kernel, constants, dtype="fp32", warps=4, stages=3, **numbers):
    """Return a launch over two aligned tensors."""
    signature = {"x": f"*{dtype}", "out": f"*{dtype}", **dict.fromkeys(numbers, "i32")}
    planned = Launch(device("cuda", 0), kernel, signature, constants, num_warps=warps, num_stages=stages)
    return lambda: planned((1, 1, 1), 1 << 20, 1 << 21, *numbers.values())


def samples(capability):
    line = {"BLOCK": 1024}
    yield Sample("good", launch(good, line), ("good",))
    yield Sample("good of an undeclared tile", launch(good, {"BLOCK": 512}))
    yield Sample("many registers", launch(many_registers, {"BLOCK": 8192}))
    yield Sample("spilling", launch(spilling, {"BLOCK": 16384}, warps=1))
    yield Sample("aborting", launch(aborting, line))
    yield Sample("scalar", launch(scalar, line), ("scalar",))
    tile = {"BLOCK": 128, "INNER": 32}
    without = {**tile, "DOT": False, "ROUNDING": "ieee"}
    yield Sample("without matrix instructions", launch(product, without, "bf16", 8, k=4096))
    rounded = {**tile, "DOT": True, "ROUNDING": "tf32"}
    yield Sample("rounded to tf32", launch(product, rounded, "fp32", 8, k=4096))
    yield Sample("greedy", launch(greedy, {"BLOCK": 128, "INNER": 64}, "bf16", 8, 8, k=4096))
    yield Sample("not compiling", launch(not_compiling, line))
    yield Sample("trapping", launch(trapping, line))
    yield Sample("undeclared", launch(undeclared, line))
    yield Sample("launching nothing", lambda: None)
    yield Sample("not refused", launch(good, line), refused=True)

    def refuse():
        tt.empty(4, dtype=tt.complex64, device="cuda").erf()

    yield Sample("refused", refuse)
