"""Loops of random number generation: Philox, normal numbers from its words, and PyTorch's from a Mersenne Twister.

They compute the passes of `philox.py`, `box_muller.py`, `mersenne_normal.py` and the shuffle of `mersenne_draws.py`,
with the same order of operations.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from ...runtime.cpu.calling_convention import HEADER, python_call
from ...runtime.cpu.object_code import loop_function, target
from .box_muller import STEP, STEPS, TWO_PI
from .mersenne_normal import ANGLE, COS, FOUR_OVER_PI, LOG, LOG_2_HIGH, LOG_2_LOW, QUARTER_PI, SIN, SQRT_HALF
from .philox import MULTIPLIERS, ROUNDS, WEYL

_LOW = 0xFFFFFFFF


def words_text() -> str:
    """Return the loop ``loop(numbers, out)``: counters, the first one, and both halves of the key; rows of
    four words."""
    lines = []
    for name, index in (("n", 0), ("first", 1), ("k0_0", 2), ("k1_0", 3)):
        lines += [
            f"  %{name}_p = getelementptr i64, ptr %g, i64 {index}",
            f"  %{name} = load i64, ptr %{name}_p",
        ]
    return _module("ptr noalias nocapture %p0", [*lines, *_keys()], _words(), 1)


def words_function() -> str:
    """Return ``void @triten_words(ptr out, i64 n, i64 first, i64 seed)``: rows of four words, as in the loop."""
    head = "ptr noalias nocapture %p0, i64 %n, i64 %first, i64 %seed"
    lines = [f"  %k0_0 = and i64 %seed, {_LOW}", "  %k1_0 = lshr i64 %seed, 32", *_keys()]
    return _function(f"triten_words({head})", lines, _words())


def _keys() -> list[str]:
    """Emit both halves of the key in each round."""
    lines = []
    for r in range(1, ROUNDS):
        for half in (0, 1):
            lines += [
                f"  %w{half}_{r} = add i64 %k{half}_{r - 1}, {WEYL[half]}",
                f"  %k{half}_{r} = and i64 %w{half}_{r}, {_LOW}",
            ]
    return lines


def _words() -> list[str]:
    """Emit the words of a counter."""
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
    for index, word in enumerate((a, b, c, d)):
        body += [
            f"  %t{index} = trunc i64 {word} to i32",
            f"  %at{index} = add i64 %row, {index}",
            f"  %to{index} = getelementptr i32, ptr %p0, i64 %at{index}",
            f"  store i32 %t{index}, ptr %to{index}, align 4",
        ]
    return body


def normal_text(kind: str) -> str:
    """Return the loop ``loop(numbers, out, logs, draws, cosines, sines)`` over pairs of random ``i32`` or ``i64``.

    ``numbers[0]`` is the number of pairs. `logs` has the logarithm for each pair; `draws` has both numbers, the second
    of which is the angle.
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


class _Lanes:
    """The lines of a computation on 8 lanes; its methods return the names of their results."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def line(self, text: str) -> str:
        """Append an instruction, and return its value."""
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return name

    def floats(self, operation: str, a: str, b: str) -> str:
        """Compute in float32, rounded."""
        return self.line(f"{operation} {_FLOATS} {a}, {b}")

    def integers(self, operation: str, a: str, b: int) -> str:
        """Compute in int32, with a number."""
        return self.line(f"{operation} {_INTEGERS} {a}, {_lanes('i32', str(b))}")

    def fma(self, a: str, b: str, c: str) -> str:
        """Compute ``a * b + c``, rounded once."""
        operands = ", ".join(f"{_FLOATS} {v}" for v in (a, b, c))
        return self.line(f"call {_FLOATS} @llvm.fma.v8f32({operands})")

    def cast(self, operation: str, value: str, text: str, made: str) -> str:
        """Convert lanes."""
        return self.line(f"{operation} {text} {value} to {made}")

    def select(self, chosen: str, a: str, b: str) -> str:
        """Emit a selection of `a` where `chosen` is true, else `b`."""
        return self.line(f"select <8 x i1> {chosen}, {_FLOATS} {a}, {_FLOATS} {b}")

    def polynomial(self, coefficients: Sequence[Any], x: str) -> str:
        """Evaluate a polynomial by Horner's rule."""
        made = _number(coefficients[0])
        for coefficient in coefficients[1:]:
            made = self.fma(made, x, _number(coefficient))
        return made


_FLOATS, _INTEGERS = "<8 x float>", "<8 x i32>"


def _lanes(kind: str, text: str) -> str:
    return "<" + ", ".join([f"{kind} {text}"] * 8) + ">"


def _number(value: Any) -> str:
    return _lanes("float", f"0x{struct.pack('>d', float(value)).hex().upper()}")


def mersenne_normal_text() -> str:
    """Return the text of ``loop(numbers, out, uniform, parameters)`` over groups of 16 elements.

    `parameters` are mean and standard deviation.
    """
    lanes = _Lanes()
    one, zero = _number(1.0), _number(0.0)

    # The logarithm of 1 - u.
    x = lanes.floats("fsub", one, "%radial")
    bits = lanes.cast("bitcast", x, _FLOATS, _INTEGERS)
    exponent = lanes.integers("sub", lanes.integers("lshr", bits, 23), 126)
    e = lanes.cast("sitofp", exponent, _INTEGERS, _FLOATS)
    mantissa = lanes.integers("or", lanes.integers("and", bits, 0x007FFFFF), 0x3F000000)
    x = lanes.cast("bitcast", mantissa, _INTEGERS, _FLOATS)
    small = lanes.line(f"fcmp olt {_FLOATS} {x}, {_number(SQRT_HALF)}")
    e = lanes.floats("fsub", e, lanes.select(small, one, zero))
    x = lanes.floats("fadd", lanes.floats("fsub", x, one), lanes.select(small, x, zero))
    square = lanes.floats("fmul", x, x)
    series = lanes.floats("fmul", lanes.polynomial(LOG, x), x)
    series = lanes.fma(series, square, lanes.floats("fmul", e, _number(LOG_2_LOW)))
    series = lanes.fma(square, _number(-0.5), series)
    logarithm = lanes.fma(e, _number(LOG_2_HIGH), lanes.floats("fadd", x, series))
    doubled = lanes.floats("fmul", _number(-2.0), logarithm)
    radius = lanes.line(f"call {_FLOATS} @llvm.sqrt.v8f32({_FLOATS} {doubled})")

    # Sine and cosine of the angle.
    x = lanes.floats("fmul", _number(ANGLE), "%angular")
    octant = lanes.cast("fptosi", lanes.floats("fmul", x, _number(FOUR_OVER_PI)), _FLOATS, _INTEGERS)
    octant = lanes.integers("and", lanes.integers("add", octant, 1), -2)
    turns = lanes.cast("sitofp", octant, _INTEGERS, _FLOATS)
    for part in QUARTER_PI:
        x = lanes.fma(turns, _number(part), x)
    square = lanes.floats("fmul", x, x)
    cosine = lanes.floats("fmul", lanes.polynomial(COS, square), square)
    cosine = lanes.fma(cosine, square, lanes.floats("fmul", square, _number(-0.5)))
    cosine = lanes.floats("fadd", cosine, one)
    sine = lanes.fma(lanes.floats("fmul", lanes.polynomial(SIN, square), square), x, x)
    straight = lanes.line(f"icmp eq {_INTEGERS} {lanes.integers('and', octant, 2)}, {_lanes('i32', '0')}")
    signs = [
        lanes.integers("shl", lanes.integers("and", octant, 4), 29),
        lanes.integers(
            "shl", lanes.integers("and", lanes.integers("xor", lanes.integers("sub", octant, 2), -1), 4), 29
        ),
    ]
    chosen = [lanes.select(straight, sine, cosine), lanes.select(straight, cosine, sine)]
    made = []
    for value, sign in zip(chosen, signs, strict=True):
        raw = lanes.cast("bitcast", value, _FLOATS, _INTEGERS)
        signed = lanes.cast("bitcast", lanes.line(f"xor {_INTEGERS} {raw}, {sign}"), _INTEGERS, _FLOATS)
        made.append(lanes.fma(lanes.floats("fmul", radius, signed), "%deviations", "%means"))
    head = ["  %n_p = getelementptr i64, ptr %g, i64 0", "  %n = load i64, ptr %n_p"]
    for index, name in enumerate(("mean", "deviation")):
        head += [
            f"  %{name}_p = getelementptr float, ptr %p2, i64 {index}",
            f"  %{name} = load float, ptr %{name}_p, align 4",
            f"  %{name}_0 = insertelement {_FLOATS} undef, float %{name}, i32 0",
            f"  %{name}s = shufflevector {_FLOATS} %{name}_0, {_FLOATS} undef, {_INTEGERS} zeroinitializer",
        ]
    body = ["  %first = shl i64 %i, 4", "  %second = add i64 %first, 8"]
    for name, offset_name in (("radial", "%first"), ("angular", "%second")):
        body += [
            f"  %{name}_p = getelementptr float, ptr %p1, i64 {offset_name}",
            f"  %{name} = load {_FLOATS}, ptr %{name}_p, align 4",
        ]
    body += lanes.lines
    for value, offset_name in ((made[1], "first"), (made[0], "second")):
        body += [
            f"  %to_{offset_name} = getelementptr float, ptr %p0, i64 %{offset_name}",
            f"  store {_FLOATS} {value}, ptr %to_{offset_name}, align 4",
        ]
    functions = (
        f"declare {_FLOATS} @llvm.fma.v8f32({_FLOATS}, {_FLOATS}, {_FLOATS})\n"
        f"declare {_FLOATS} @llvm.sqrt.v8f32({_FLOATS})\n"
    )
    pointers = "ptr noalias nocapture %p0, ptr nocapture readonly %p1, ptr nocapture readonly %p2"
    return functions + _module(pointers, head, body, 3)


def shuffle_text() -> str:
    """Return the text of ``loop(numbers, order, others)``, which exchanges elements i and ``others[i]``, in order."""
    body = [
        "  %other_p = getelementptr i64, ptr %p1, i64 %i",
        "  %other = load i64, ptr %other_p, align 8",
        "  %here = getelementptr i64, ptr %p0, i64 %i",
        "  %there = getelementptr i64, ptr %p0, i64 %other",
        "  %mine = load i64, ptr %here, align 8",
        "  %its = load i64, ptr %there, align 8",
        "  store i64 %its, ptr %here, align 8",
        "  store i64 %mine, ptr %there, align 8",
    ]
    head = ["  %n_p = getelementptr i64, ptr %g, i64 0", "  %n = load i64, ptr %n_p"]
    return _module("ptr noalias nocapture %p0, ptr nocapture readonly %p1", head, body, 2)


def _module(pointers: str, head: list[str], body: list[str], arrays: int) -> str:
    function = _function(f"loop(ptr nocapture readonly %g, {pointers})", head, body)
    return HEADER + function + python_call(arrays, 1)


def _function(signature: str, head: list[str], body: list[str]) -> str:
    """Return a function that runs a body for each of `%n`."""
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


def words_loop() -> Callable[..., None]:
    """Return the compiled loop of Philox words."""
    return loop_function(words_text())


def normal_loop(kind: str) -> Callable[..., None]:
    """Return the compiled loop of normal numbers from random words of LLVM's type `kind`, ``i32`` or ``i64``."""
    return loop_function(normal_text(kind))


def mersenne_normal_loop() -> Callable[..., None] | None:
    """Return the compiled loop of PyTorch's normal numbers, or None without fused multiply-add."""
    processor = target()
    assert processor is not None
    return loop_function(mersenne_normal_text()) if processor.fuses else None


def shuffle_loop() -> Callable[..., None]:
    """Return the compiled loop of a permutation's exchanges."""
    return loop_function(shuffle_text())
