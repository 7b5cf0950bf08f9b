"""Loops of random numbers: Philox over counters, and normal numbers of its words.

They compute what `cpu_fallback/random/philox.py` and `box_muller.py` do in passes, in the same order of operations.
"""

from __future__ import annotations

import struct
from collections.abc import Callable

from ...cpu_fallback.random.box_muller import STEP, STEPS, TWO_PI
from ...cpu_fallback.random.philox import MULTIPLIERS, ROUNDS, WEYL
from .calling_convention import HEADER, python_call
from .object_code import loop_function

_LOW = 0xFFFFFFFF


def words_text() -> str:
    """The loop of ``loop(numbers, out)``: counters, the first one, and both halves of the key; rows of four words."""
    lines = []
    for name, place in (("n", 0), ("first", 1), ("k0_0", 2), ("k1_0", 3)):
        lines += [
            f"  %{name}_p = getelementptr i64, ptr %g, i64 {place}",
            f"  %{name} = load i64, ptr %{name}_p",
        ]
    return _module("ptr noalias nocapture %p0", [*lines, *_keys()], _words(), 1)


def words_function() -> str:
    """``void @triten_words(ptr out, i64 n, i64 first, i64 seed)``: rows of four words, as the loop has them."""
    head = "ptr noalias nocapture %p0, i64 %n, i64 %first, i64 %seed"
    lines = [f"  %k0_0 = and i64 %seed, {_LOW}", "  %k1_0 = lshr i64 %seed, 32", *_keys()]
    return _function(f"triten_words({head})", lines, _words())


def _keys() -> list[str]:
    """Both halves of the key in each round."""
    lines = []
    for r in range(1, ROUNDS):
        for half in (0, 1):
            lines += [
                f"  %w{half}_{r} = add i64 %k{half}_{r - 1}, {WEYL[half]}",
                f"  %k{half}_{r} = and i64 %w{half}_{r}, {_LOW}",
            ]
    return lines


def _words() -> list[str]:
    """The words of a counter."""
    body = [
        "  %number = add i64 %first, %i",
        f"  %a_0 = and i64 %number, {_LOW}",
        "  %b_0 = lshr i64 %number, 32",
    ]
    a, b, c, d = "%a_0", "%b_0", "0", "0"
    for r in range(ROUNDS):
        body += [
            f"  %m{r} = mul i64 {a}, {MULTIPLIERS[0]}",
            f"  %q{r} = mul i64 {c}, {MULTIPLIERS[1]}",
            f"  %ph{r} = lshr i64 %m{r}, 32",
            f"  %qh{r} = lshr i64 %q{r}, 32",
            f"  %pl{r} = and i64 %m{r}, {_LOW}",
            f"  %ql{r} = and i64 %q{r}, {_LOW}",
            f"  %qx{r} = xor i64 %qh{r}, {b}",
            f"  %px{r} = xor i64 %ph{r}, {d}",
            f"  %a{r + 1} = xor i64 %qx{r}, %k0_{r}",
            f"  %c{r + 1} = xor i64 %px{r}, %k1_{r}",
        ]
        a, b, c, d = f"%a{r + 1}", f"%ql{r}", f"%c{r + 1}", f"%pl{r}"
    body.append("  %row = shl i64 %i, 2")
    for place, word in enumerate((a, b, c, d)):
        body += [
            f"  %t{place} = trunc i64 {word} to i32",
            f"  %at{place} = add i64 %row, {place}",
            f"  %to{place} = getelementptr i32, ptr %p0, i64 %at{place}",
            f"  store i32 %t{place}, ptr %to{place}, align 4",
        ]
    return body


def normal_text(kind: str) -> str:
    """The loop of ``loop(numbers, out, logs, draws, cosines, sines)`` over pairs of draws of ``i32`` or ``i64``.

    ``numbers[0]`` is how many pairs there are; `logs` has the logarithm for each, and `draws` both, of which the second
    one is the angle.
    """
    unit = 2.0**-32 if kind == "i32" else 2.0**-53
    text = {
        "nearest": float(STEPS) * unit,
        "turn": unit * TWO_PI,
        "step": float(STEP),
        "sine3": 1.0 / 120.0,
        "sine2": 1.0 / 6.0,
        "cosine2": 1.0 / 24.0,
        "half": 0.5,
        "minus_two": -2.0,
    }
    number = {name: f"0x{struct.pack('>d', value).hex().upper()}" for name, value in text.items()}
    body = [
        "  %pair = shl i64 %i, 1",
        "  %next = add i64 %pair, 1",
        f"  %odd_p = getelementptr {kind}, ptr %p2, i64 %next",
        f"  %odd_w = load {kind}, ptr %odd_p, align 4",
        *(["  %odd_s = lshr i64 %odd_w, 11"] if kind == "i64" else []),
        f"  %odd = uitofp {kind} {'%odd_s' if kind == 'i64' else '%odd_w'} to double",
        f"  %place = fmul double %odd, {number['nearest']}",
        "  %kept = call double @llvm.rint.f64(double %place)",
        "  %j32 = fptosi double %kept to i32",
        "  %j = sext i32 %j32 to i64",
        "  %cos_p = getelementptr double, ptr %p3, i64 %j",
        "  %sin_p = getelementptr double, ptr %p4, i64 %j",
        "  %cos = load double, ptr %cos_p, align 8",
        "  %sin = load double, ptr %sin_p, align 8",
        f"  %angle = fmul double %odd, {number['turn']}",
        f"  %point = fmul double %kept, {number['step']}",
        "  %x = fsub double %angle, %point",
        "  %square = fmul double %x, %x",
        f"  %s0 = fmul double %square, {number['sine3']}",
        f"  %s1 = fsub double %s0, {number['sine2']}",
        "  %s2 = fmul double %s1, %square",
        "  %s3 = fmul double %s2, %x",
        "  %s = fadd double %x, %s3",
        f"  %c0 = fmul double %square, {number['cosine2']}",
        f"  %c1 = fsub double %c0, {number['half']}",
        "  %c = fmul double %square, %c1",
        "  %cc = fmul double %cos, %c",
        "  %ss = fmul double %sin, %s",
        "  %u0 = fsub double %cc, %ss",
        "  %u = fadd double %u0, %cos",
        "  %sc = fmul double %sin, %c",
        "  %v0 = fadd double %sin, %sc",
        "  %cs = fmul double %cos, %s",
        "  %v = fadd double %v0, %cs",
        "  %log_p = getelementptr double, ptr %p1, i64 %i",
        "  %log = load double, ptr %log_p, align 8",
        f"  %m = fmul double %log, {number['minus_two']}",
        "  %radius = call double @llvm.sqrt.f64(double %m)",
        "  %first = fmul double %radius, %u",
        "  %second = fmul double %radius, %v",
        "  %first_p = getelementptr double, ptr %p0, i64 %pair",
        "  %second_p = getelementptr double, ptr %p0, i64 %next",
        "  store double %first, ptr %first_p, align 8",
        "  store double %second, ptr %second_p, align 8",
    ]
    head = ["  %n_p = getelementptr i64, ptr %g, i64 0", "  %n = load i64, ptr %n_p"]
    pointers = "ptr noalias nocapture %p0, " + ", ".join(f"ptr nocapture readonly %p{j}" for j in range(1, 5))
    functions = "declare double @llvm.rint.f64(double)\ndeclare double @llvm.sqrt.f64(double)\n"
    return functions + _module(pointers, head, body, 5)


def _module(pointers: str, head: list[str], body: list[str], arrays: int) -> str:
    function = _function(f"loop(ptr nocapture readonly %g, {pointers})", head, body)
    return HEADER + function + python_call(arrays, 1)


def _function(signature: str, head: list[str], body: list[str]) -> str:
    """A function that does something for each of `%n`."""
    lines = [
        f"define internal void @{signature} noinline {{",
        "entry:",
        *head,
        "  br label %head",
        "head:",
        "  %i = phi i64 [0, %entry], [%j_next, %head]",
        *body,
        "  %j_next = add nuw nsw i64 %i, 1",
        "  %more = icmp slt i64 %j_next, %n",
        "  br i1 %more, label %head, label %done",
        "done:",
        "  ret void",
        "}",
    ]
    return "\n".join(lines) + "\n"


TEXTS: dict[str, Callable[[], str]] = {
    "philox_words": words_text,
    "normal_pairs_32": lambda: normal_text("i32"),
    "normal_pairs_64": lambda: normal_text("i64"),
}
"""By the name that kernels ask for."""


def draw_loop(name: str) -> Callable[..., None]:
    """The loop of this name."""
    return loop_function(TEXTS[name]())
