"""Arrays of a block of rows: steps overwrite their inputs, and outputs that are computed later."""

from collections.abc import Callable
from typing import Any

import pytest

import triten as tt
from triten.compiler.host import pointwise, rows
from triten.compiler.host.rows import host_rows_kernel
from triten.compiler.pipeline import run_passes
from triten.compiler.schedule import RowsKernel, fused_schedule
from triten.tests.compiler.beside_eager import agree, drawn

F = tt.nn.functional


@pytest.fixture(autouse=True)
def in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use blocks of a few rows."""
    monkeypatch.setattr(rows, "BLOCK_BYTES", 1024)
    monkeypatch.setattr(pointwise, "WHOLE_UP_TO", 4)


def program_of(function: Callable[..., Any], *args: tt.Tensor, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the source of the program that computes a block."""
    graph = run_passes(tt.func.make_graph(function, "fake")(*args).graph)
    (kernel,) = fused_schedule(graph).kernels
    assert isinstance(kernel, RowsKernel)
    texts = []
    defined = rows.defined
    monkeypatch.setattr(rows, "defined", lambda *given: texts.append(given[1]) or defined(*given))
    host_rows_kernel(kernel)
    return texts[0]


def test_softmax_computes_in_its_output(monkeypatch: pytest.MonkeyPatch) -> None:
    def softmax(x: tt.Tensor) -> tt.Tensor:
        e = (x - x.amax(-1, keepdim=True)).exp()
        return e / e.sum(-1, keepdim=True)

    text = program_of(softmax, drawn(9, 24), monkeypatch=monkeypatch)
    assert text.count("empty(") == 1, "an array for the numbers of rows"
    calls = [line.split("(")[1].rstrip(")") for line in text.splitlines()[2:]]
    assert calls == ["t1, a0", "o0, a0, t1", "o0, o0", "t1, o0", "o0, o0, t1"]


def test_a_reduction_does_not_write_over_what_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    text = program_of(lambda x: (x * 2).softmax(-1), drawn(9, 48), monkeypatch=monkeypatch)
    assert text.count("empty(") == 1


def test_outputs_keep_what_later_steps_read() -> None:
    def f(x: tt.Tensor) -> Any:
        a = x * 2
        b = a.exp()
        c = b - b.amax(-1, keepdim=True)
        return b, c.sin() + a, c, (c * b).amax(-1)

    agree(f, lambda: (drawn(40, 24),), calls=1)


def test_statistics_that_nobody_reads_have_arrays_of_their_own() -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        return F.layer_norm(x * 2, (40,)) + F.rms_norm(x * 2, (40,)) * x

    # Matmuls sum shorter rows; their sums may depend on the number of rows in a block.
    agree(f, lambda: (drawn(40, 40),), calls=1)


UNARY: dict[str, Callable[[tt.Tensor], tt.Tensor]] = {
    name: getattr(tt, name)
    for name in (
        *("abs", "acosh", "asinh", "atan", "ceil", "cos", "deg2rad", "digamma", "erf", "erfc", "exp", "exp2", "expm1"),
        *("floor", "frac", "lgamma", "log", "log10", "log1p", "log2", "logit", "neg", "reciprocal", "relu", "round"),
        *("rsqrt", "sigmoid", "sign", "sin", "sinc", "sinh", "sqrt", "square", "tan", "tanh", "trunc", "nan_to_num"),
    )
} | {
    name: getattr(F, name)
    for name in (
        *("celu", "elu", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid", "mish", "relu6"),
        *("selu", "silu", "softplus", "softshrink", "softsign", "hardshrink", "tanhshrink"),
    )
}  # fmt: skip
BINARY = (
    "add", "sub", "mul", "div", "pow", "maximum", "minimum", "fmax", "fmin", "fmod", "remainder", "floor_divide",
    "atan2", "hypot", "copysign", "logaddexp", "logaddexp2", "nextafter", "heaviside", "xlogy", "ldexp",
)  # fmt: skip
TERNARY: dict[str, Callable[[Any, Any, Any], tt.Tensor]] = {
    "lerp": tt.lerp, "addcmul": tt.addcmul, "addcdiv": tt.addcdiv, "where": lambda a, b, c: tt.where(a > 0, b, c),
    "clamp": lambda a, b, c: tt.clamp(a, -0.5, 1.5), "clamp by tensors": tt.clamp,
    "masked_fill": lambda a, b, c: a.masked_fill(b > 0, 2.0), "rsub": lambda a, b, c: 1 - a,
    "div floor": lambda a, b, c: tt.div(a, b, rounding_mode="floor"),
    "add alpha": lambda a, b, c: tt.add(a, b, alpha=3), "gelu tanh": lambda a, b, c: F.gelu(a, approximate="tanh"),
    "cast": lambda a, b, c: a.to(tt.float64).to(tt.float32), "reversed": lambda a, b, c: b / a,
}  # fmt: skip


@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16])
@pytest.mark.parametrize("name", [*UNARY, *BINARY, *TERNARY])
def test_steps_may_write_over_what_they_read(name: str, dtype: Any) -> None:
    """Make each operand's use the last one of a value in the middle of a kernel."""
    of = UNARY.get(name) or TERNARY.get(name) or getattr(tt, name)

    def f(x: tt.Tensor, y: tt.Tensor, z: tt.Tensor) -> tt.Tensor:
        a, b, c = x * 1.5, y * 0.5, z + 1
        made = of(a) if name in UNARY else of(a, b) if name in BINARY else of(a, b, c)
        return made * 2 + made.amax(-1, keepdim=True) + (b + c if name in TERNARY else 0)

    agree(f, lambda: tuple(drawn(9, 24, dtype=dtype, seed=i) for i in range(3)), calls=1)
