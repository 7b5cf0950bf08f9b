"""Loops that add runs of 16-bit floats, in pairs as words, in the order of NumPy's einsum.

Einsum adds sixteen numbers to the lanes of one vector at a time. The first and the second elements of words are
converted to float32 separately, and each are added in this order.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy._core.multiarray import c_einsum

from ...runtime.cpu.calling_convention import HEADER, loaded_number, python_call
from ...runtime.cpu.object_code import loop_function, target
from ...runtime.scalar_type import BY_NAME
from .half_words import HALVES, REBIAS

KIND = "<4 x float>"
_second_sum = [
    "  %second = add i64 %n, %r",
    "  %b_p = getelementptr float, ptr %p0, i64 %second",
    "  store float %b_sum, ptr %b_p, align 4",
]


def sums_text(dtype: str) -> str:
    """Return the loop ``loop((runs, length), out, words)``; `out` has a row of sums of first elements, and one of
    second elements.
    """
    halves = "ab"
    lines = [
        "define internal void @loop(ptr nocapture readonly %g, ptr noalias nocapture %p0, ptr nocapture readonly %p1) "
        "noinline {",
        "entry:",
        *loaded_number("n", 0),
        *loaded_number("m", 1),
        "  br label %head",
        "head:",
        "  %r = phi i64 [0, %entry], [%r_next, %ended]",
        "  %start = mul i64 %r, %m",
        "  br label %more",
        "more:",
        "  %i = phi i64 [0, %head], [%i_next, %more]",
        *(f"  %{half} = phi {KIND} [zeroinitializer, %head], [%{half}_next, %more]" for half in halves),
    ]
    for j in range(4):
        lines.append(f"  %k{j} = add i64 %i, {4 * j}")
        lines += _loaded_words(dtype, j)
    for half in halves:
        lines += [
            f"  %{half}01 = fadd {KIND} %{half}0, %{half}1",
            f"  %{half}23 = fadd {KIND} %{half}2, %{half}3",
            f"  %{half}0123 = fadd {KIND} %{half}01, %{half}23",
            f"  %{half}_next = fadd {KIND} %{half}0123, %{half}",
        ]
    lines += [
        "  %i_next = add i64 %i, 16",
        "  %again = icmp ult i64 %i_next, %m",
        "  br i1 %again, label %more, label %ended",
        "ended:",
    ]
    for half in halves:
        for j in range(4):
            lines.append(f"  %{half}_{j} = extractelement {KIND} %{half}_next, i64 {j}")
        lines += [
            f"  %{half}_01 = fadd float %{half}_0, %{half}_1",
            f"  %{half}_23 = fadd float %{half}_2, %{half}_3",
            f"  %{half}_sum = fadd float %{half}_01, %{half}_23",
        ]
    lines += [
        "  %a_p = getelementptr float, ptr %p0, i64 %r",
        "  store float %a_sum, ptr %a_p, align 4",
        *_second_sum,
        "  %r_next = add nuw nsw i64 %r, 1",
        "  %c = icmp slt i64 %r_next, %n",
        "  br i1 %c, label %head, label %done",
        "done:",
        "  ret void",
        "}",
    ]
    return HEADER + "\n".join(lines) + "\n" + python_call(2, 2)


def _loaded_words(dtype: str, j: int) -> list[str]:
    """Emit the first and the second elements of four words in float32, ``%a{j}`` and ``%b{j}``."""
    loaded = [
        f"  %at{j} = add i64 %start, %k{j}",
        f"  %w{j}_p = getelementptr i32, ptr %p1, i64 %at{j}",
        f"  %w{j} = load <4 x i32>, ptr %w{j}_p, align 4",
    ]
    if dtype == "bfloat16":
        return [
            *loaded,
            f"  %x{j} = shl <4 x i32> %w{j}, splat (i32 16)",
            f"  %y{j} = and <4 x i32> %w{j}, splat (i32 -65536)",
            f"  %a{j} = bitcast <4 x i32> %x{j} to {KIND}",
            f"  %b{j} = bitcast <4 x i32> %y{j} to {KIND}",
        ]
    return [
        *loaded,
        f"  %y{j} = lshr <4 x i32> %w{j}, splat (i32 16)",
        f"  %x16_{j} = trunc <4 x i32> %w{j} to <4 x i16>",
        f"  %y16_{j} = trunc <4 x i32> %y{j} to <4 x i16>",
        f"  %xh{j} = bitcast <4 x i16> %x16_{j} to <4 x half>",
        f"  %yh{j} = bitcast <4 x i16> %y16_{j} to <4 x half>",
        f"  %a{j} = fpext <4 x half> %xh{j} to {KIND}",
        f"  %b{j} = fpext <4 x half> %yh{j} to {KIND}",
    ]


def run_sums_loop(dtype: str) -> Callable[..., None] | None:
    """Return the loop of a dtype, or None if it is not bitwise identical to the NumPy passes on this processor.

    Args:
        dtype: ``float32``, ``float16`` or ``bfloat16``.
    """
    processor = target()
    assert processor is not None
    if dtype == "float16" and not processor.converts_half:
        return None
    loop = loop_function(sums_text(dtype))
    return loop if adds_as_numpy(dtype, loop) else None


def adds_as_numpy(dtype: str, loop: object) -> bool:
    """Return True if a loop is bitwise identical to the NumPy passes on this processor."""
    assert callable(loop)
    scalar = BY_NAME[dtype]
    numbers = np.random.default_rng(7).standard_normal((9, 2 * 512)) * 2.0 ** np.arange(-12, 15, 3)[:, None]
    words = numbers.astype(scalar.np).view(np.uint32)
    actual, wide = np.empty((2, 9), np.float32), np.empty((2, 9, 512), np.uint32)
    loop(np.array([9, 512]), actual, words)
    HALVES[scalar](words, wide)
    return bool(np.array_equal(actual, c_einsum("...i->...", wide.view(np.float32)) * REBIAS[scalar]))
