"""Loops over rows and tiles are bitwise identical to eager.

The tests cover lengths, layouts and special numbers; `test_function_check` has functions and reductions alone.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.compiler.host import row_program
from triten.cpu_fallback import function_check
from triten.runtime.cpu import object_code
from triten.runtime.cpu.elementary_functions import RANGED
from triten.tests.compiler.beside_eager import agree, drawn, same
from triten.tests.compiler.test_loops import SPECIAL, needs_llvm, pairs
from triten.tests.compiler.test_rows import CHAINS, operands_of
from triten.tests.cpu_fallback.test_function_check import has_all_bits, needs_all_bits

pytestmark = needs_llvm
F = tt.nn.functional
N = 200
"""Elements of rows that eager kernels add in no other order than long ones."""


def runs_as(function: Callable[..., Any], *args: Any) -> tuple[str, ...]:
    """Return how each of a function's kernels runs."""
    return tuple(line.partition(": ")[2] for line in tt.compiler.explain(function, *args).execution)


def layer_norm_by_hand(x: tt.Tensor, y: tt.Tensor, w: tt.Tensor, b: tt.Tensor) -> tt.Tensor:
    x = x + y
    spread = x.var(-1, keepdim=True, correction=0)
    return (x - x.mean(-1, keepdim=True)) * (spread + 1e-5).rsqrt() * w + b


ROWS: dict[str, tuple[Callable[..., Any], int]] = {
    "softmax": (lambda x: F.softmax(x * 2, -1), 1),
    "log_softmax": (lambda x: F.log_softmax(x * 2, -1), 1),
    "softmax by hand": (CHAINS["softmax by hand"][0], 1),
    "extremes": (lambda x: (x * 2 - x.amin(-1, keepdim=True), x.amax(-1) * 2), 1),
    "sums": (lambda x: (x * x.sum(-1, keepdim=True), x.mean(-1, keepdim=True) + 1, x > x.sum(-1, keepdim=True)), 1),
    "logsumexp": (lambda x: tt.logsumexp(x * 2, -1) * 3, 1),
    "variances": (lambda x: (x.var(-1, correction=0) * 2, x.std(-1, True, True) + x, x.std(-1, correction=1.5) + 1), 1),
    "with means": (lambda x: [r * 2 for r in (*tt.var_mean(x, -1), *tt.std_mean(x + 1, -1, keepdim=True))], 1),
    "standardized": (lambda x: (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True), 1),
    "layer_norm by hand": (layer_norm_by_hand, 4),
    "rms_norm by hand": (lambda x, y, w: x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt() * w + y, 3),
    "layer_norm": (lambda x, y, w, b: F.layer_norm(x + y * 1.25, w.shape, w, b), 4),
    "statistics": (lambda x, y, w: [r * 2 for r in tt.native_layer_norm(x + y, w.shape, w, None, 1e-5)], 3),
    "rms_norm": (lambda x, y, w: F.rms_norm(F.silu(x), w.shape, w) + y, 3),
    "softmax_backward": (lambda x, y: tt.ops.aten._softmax_backward_data(x * 2, y + 1, -1, tt.float32), 2),
    "log_softmax_backward": (lambda x, y: tt.ops.aten._log_softmax_backward_data(x * 2, y, -1, tt.float32), 2),
    "functions of NumPy": (lambda x, y: F.softmax(x.tanh() * y, -1) + y.sin() * x.mean(-1, keepdim=True).cos(), 2),
}  # fmt: skip
"""Functions, and how many of a block of rows, another, and two rows they take."""


BY_HAND = ("variances", "with means", "standardized", "layer_norm by hand", "rms_norm by hand")


def operands(count: int, shape: tuple[int, ...], dtype: Any = tt.float32) -> Callable[[], tuple[Any, ...]]:
    return lambda: tuple(drawn(*(shape if i < 2 else shape[-1:]), seed=i, dtype=dtype) for i in range(count))


@needs_all_bits
@pytest.mark.parametrize("shape", [(60, N), (40, N), (3, 30, 130), (3, 4501)], ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str, shape: tuple[int, ...]) -> None:
    function, count = ROWS[name]
    made = operands(count, shape)
    agree(function, made, calls=1)
    if shape[-1] <= 4096 or name not in ("extremes", "softmax by hand"):
        assert all("one compiled loop" in how for how in runs_as(function, *made()))


@needs_all_bits
@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16, tt.float64], ids=str)
@pytest.mark.parametrize(
    "name",
    ["softmax", "log_softmax", "softmax by hand", "layer_norm", "rms_norm", "sums", *BY_HAND],
)
def test_dtypes(name: str, dtype: Any) -> None:
    function, count = ROWS[name]
    agree(function, operands(count, (70, N), dtype), calls=1)
    agree(function, operands(count, (4, 5, 74), dtype), calls=1)
    if name in ("layer_norm", *BY_HAND) and dtype is not tt.float64 and has_all_bits():
        assert runs_as(function, *operands(count, (70, N), dtype)()) == ("one compiled loop over rows",)


LAYOUTS: dict[str, Callable[[], tt.Tensor]] = {
    "contiguous": lambda: drawn(3, 30, N),
    "transposed": lambda: drawn(N, 30, 3).permute(2, 1, 0),
    "sliced": lambda: drawn(6, 60, 450)[::2, ::2, 7 : 7 + 2 * N : 2],
    "backwards": lambda: drawn(3, 30, N).flip(0),
    "a row": lambda: drawn(N),
    "a column": lambda: drawn(3, 30, 1),
    "a row of each batch": lambda: drawn(3, 1, N),
    "expanded": lambda: drawn(3, 30, 1).expand(3, 30, N),
    "a scalar": lambda: drawn(),
    "an offset": lambda: drawn(18001)[1:].view(3, 30, N),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from triten.compiler.host import loops

    monkeypatch.setattr(loops, "SHARED_FROM", 0)
    monkeypatch.setattr(loops, "PART", 1000)

    def f(x: tt.Tensor, y: tt.Tensor) -> Any:
        shifted = F.softmax(x * 2 + y, -1)
        return shifted - y, (x + y).tanh() * y.exp(), shifted.amax(-1)

    agree(f, lambda: (LAYOUTS["contiguous"](), LAYOUTS[layout]()), calls=1)
    agree(f, lambda: (LAYOUTS[layout]() * tt.ones(3, 30, N), LAYOUTS[layout]()), calls=1)


@pytest.mark.parametrize(
    "size, dtype",
    [
        *((n, tt.float32) for n in (128, 1023, 1024, 1025, 5000)),
        (3000, tt.bfloat16),
        (3000, tt.float64),
        (3000, tt.half),
    ],
    ids=str,
)
def test_tiles(size: int, dtype: Any) -> None:
    def f(x: tt.Tensor) -> Any:
        y = (x * 0.5).tanh()
        return y, y.sin() + x, (y.cos() * x).exp2() > 1, y.sinh(), x.tanh()

    agree(f, lambda: (drawn(size, dtype=dtype) * 3,), calls=1)
    assert runs_as(f, drawn(size, dtype=dtype)) == (
        "one compiled loop over tiles, with NumPy's tanh, sin, cos, exp2, sinh",
    )


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16, tt.float32, tt.float64], ids=str)
def test_special_numbers(dtype: Any) -> None:
    functions = (
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "sin",
        "cos",
        "tan",
        "tanh",
        "sinh",
        "cosh",
        "atan",
        "asin",
        "acos",
    )

    def f(x: tt.Tensor, y: tt.Tensor) -> Any:
        x, y = x * 1, y * 1
        return (*(getattr(x, name)() * 2 for name in functions), y.sigmoid(), F.silu(y), y.erf(), F.mish(y))

    agree(f, lambda: tuple(x.repeat(3) for x in pairs(dtype)), calls=1)


@pytest.mark.parametrize(
    "name",
    ["softmax", "log_softmax", "softmax by hand", "extremes", "sums", "logsumexp", *BY_HAND[:3]],
)
def test_rows_with_special_numbers(name: str) -> None:
    def made() -> tuple[tt.Tensor]:
        x = drawn(60, N)
        for i, number in enumerate(SPECIAL):
            x[3 * i, 5], x[3 * i + 1], x[3 * i + 2, :9] = number, number, -number
        return (x,)

    agree(ROWS[name][0], made, calls=1)


@needs_all_bits
@pytest.mark.parametrize("shape", [(4, 6), (64, 64), (60, N), (3, 4501)], ids=str)
def test_variances_of_numbers_whose_squares_overflow(shape: tuple[int, ...]) -> None:
    def made() -> tuple[tt.Tensor]:
        x = drawn(*shape)
        x[0] *= 1e30
        x[1, 3:5], x[2] = 3e38, 3e38
        return (x,)

    for name in BY_HAND[:3]:
        agree(ROWS[name][0], made, calls=1)
        assert all("one compiled loop" in how for how in runs_as(ROWS[name][0], *made()))


@needs_all_bits
def test_a_variance_over_two_dimensions_is_as_exact_as_float64() -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        return (x * 2 + 100).var((-2, -1))

    x = drawn(30, 20, 50)
    assert runs_as(f, x) == ("one compiled loop over rows",)
    exact = (x * 2 + 100).numpy().astype(np.float64).var((1, 2), ddof=1)
    np.testing.assert_array_equal(tt.compile(f)(x).numpy(), exact.astype(np.float32))


@pytest.mark.parametrize("name", CHAINS)
def test_chains_of_longer_rows(name: str) -> None:
    agree(CHAINS[name][0], lambda: tuple(operands_of(name, (70, N), "cpu")), calls=1)


def test_what_has_other_bits_is_left_to_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("loops", "row_loops", "tiled_loops"):
        monkeypatch.setattr(f"triten.compiler.host.{module}.has_bits_of_eager", lambda name: False)

    def f(x: tt.Tensor) -> Any:
        return (x * 2).exp() + 1, F.softmax(x * 3, -1) * 2

    agree(f, operands(1, (60, N)), calls=1)
    assert set(runs_as(f, drawn(60, N))) <= {
        "one compiled loop over tiles, with NumPy's exp",
        "3 passes of NumPy over blocks of rows",
    }


def test_a_processor_without_fused_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    found = object_code.target()
    assert found is not None
    monkeypatch.setattr(function_check, "target", lambda: found._replace(fuses=False))
    function_check.has_bits_of_eager.cache_clear()
    try:
        assert not function_check.has_bits_of_eager("exp")
        agree(lambda x: (x * 2).exp() + 1, operands(1, (60, N)), calls=1)
    finally:
        function_check.has_bits_of_eager.cache_clear()


def turned(x: tt.Tensor, y: tt.Tensor) -> Any:
    return x * y.cos() - (x * 0.5).sin(), y.sin() > x, ((y * 3).sin() * x).cos()


RANGES = "one compiled loop, or NumPy's functions where numbers are large"


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16, tt.float32, tt.float64], ids=str)
@pytest.mark.parametrize("shape", [(3, 5), (64, 200), (70, 1), (20, 3000)], ids=str)
def test_sines_and_cosines(shape: tuple[int, ...], dtype: Any) -> None:
    agree(turned, operands(2, shape, dtype), calls=1)
    agree(lambda x, y: turned(x.t(), y.t()), operands(2, shape, dtype), calls=1)
    if all(map(function_check.has_bits_of_eager, RANGED)):
        assert (RANGES in runs_as(turned, *operands(2, shape, dtype)())) == (dtype is not tt.float64)


@pytest.mark.parametrize("number", [*SPECIAL, 71476.0625, 71476.07, 117435.99, 117436.0, -2e5, 1e30])
def test_numbers_outside_of_a_range(number: float, monkeypatch: pytest.MonkeyPatch) -> None:
    from triten.compiler.host import loops

    monkeypatch.setattr(loops, "SHARED_FROM", 0)
    monkeypatch.setattr(loops, "PART", 900)
    compiled = tt.compile(turned, fullgraph=True)
    for place in (0, 3001, -1):
        x, y = operands(2, (61, N))()
        same(compiled(x, y), turned(x, y))
        x.view(-1)[place] = number
        y.view(-1)[place - 1] = -number
        for threads in (1, 2, 5):
            before = tt.get_num_threads()
            try:
                tt.set_num_threads(threads)
                same(compiled(x, y), turned(x, y))
            finally:
                tt.set_num_threads(before)


def test_a_ufunc_that_has_no_loop_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_program, "ufunc_loop", lambda function, dtype: None)

    def f(x: tt.Tensor) -> tt.Tensor:
        return (x * 2).tanh() + 1

    agree(f, operands(1, (60, N)), calls=1)
    assert runs_as(f, drawn(60, N)) == ("2 compiled loops, and NumPy's tanh between",)


@pytest.mark.parametrize("name", ["softmax", "layer_norm", "functions of NumPy"])
def test_rows_without_llvm(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("pointwise", "rows", "single_steps"):
        monkeypatch.setattr(f"triten.compiler.host.{module}.is_possible", lambda: False)
    function, count = ROWS[name]
    agree(function, operands(count, (60, N)), calls=1)
    assert all("passes of NumPy" in how for how in runs_as(function, *operands(count, (60, N))()))


FILLS = (0, 1.5, -1, True, 300, 1e30, -0.0, math.inf, -math.inf, math.nan)


@pytest.mark.parametrize(
    "dtype", [tt.float16, tt.bfloat16, tt.float32, tt.float64, tt.int64, tt.uint8, tt.bool], ids=str
)
def test_masked_fills(dtype: Any) -> None:
    x = drawn(60, N) > 0 if dtype is tt.bool else drawn(60, N).abs().to(dtype)
    masks = [drawn(*shape, seed=2) > 0 for shape in ((60, N), (N,), (60, 1))]
    for number in FILLS:

        def f(x: tt.Tensor, *masks: tt.Tensor, number: Any = number) -> Any:
            return [(x + x).masked_fill(mask, number) + x for mask in masks]

        try:
            expected = f(x, *masks)
        except RuntimeError as error:  # of a number that the dtype does not hold
            with pytest.raises(RuntimeError) as found:
                tt.compile(f)(x, *masks)
            assert str(found.value) == str(error)
            continue
        same(tt.compile(f)(x, *masks), expected)
        assert all("one compiled loop" in how for how in runs_as(f, x, *masks))


@needs_all_bits
def test_masked_scores_are_one_loop() -> None:
    def scores(x: tt.Tensor, mask: tt.Tensor) -> tt.Tensor:
        return F.softmax((x * 0.125).masked_fill(mask, -math.inf), -1)

    x, mask = drawn(2, 4, 90, 90), tt.ones(90, 90).triu(1) > 0
    agree(scores, lambda: (x, mask), calls=1)
    assert runs_as(scores, x, mask) == ("one compiled loop over rows",)


@needs_all_bits
def test_explanations_say_how_rows_run() -> None:
    x = drawn(60, N)
    assert runs_as(lambda x: F.softmax(x * 2, -1), x) == ("one compiled loop over rows",)
    assert runs_as(lambda x: F.softmax(x.tanh(), -1), x) == (
        "one compiled loop over rows, with NumPy's tanh",
    )
    assert runs_as(lambda x: x.prod(-1, keepdim=True) * (x * 2), x) == (
        "3 passes of NumPy over blocks of rows",
    )


ALONE: dict[str, Callable[..., Any]] = {
    "gelu": F.gelu,
    "gradient of gelu": lambda x: tt.ops.aten.gelu_backward(x, x),
    "gradient of gelu by tanh": lambda x: tt.ops.aten.gelu_backward(x, x, approximate="tanh"),
    "mish": F.mish,
    "sigmoid": tt.sigmoid,
    "silu": F.silu,
    "erf": tt.erf,
    "softmax": lambda x: F.softmax(x, -1),
    "log_softmax": lambda x: F.log_softmax(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "statistics of layer_norm": lambda x: tt.native_layer_norm(x, x.shape[-1:], None, None, 1e-5),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
}


@needs_all_bits
@pytest.mark.parametrize("name", ALONE)
def test_operators_of_several_passes_are_loops_by_themselves(name: str) -> None:
    def f(x: tt.Tensor) -> Any:
        return ALONE[name](x)

    agree(f, operands(1, (70, 300)), calls=1)
    (how,) = runs_as(f, drawn(70, 300))
    assert how.startswith("one compiled loop")


@pytest.mark.parametrize("name", ["functions of NumPy", "standardized", "with means"])
def test_threads_share_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from triten.compiler.host import loops

    monkeypatch.setattr(loops, "SHARED_FROM", 0)
    monkeypatch.setattr(loops, "PART", 900)
    before = tt.get_num_threads()
    function, count = ROWS[name]
    args = operands(count, (61, N))()
    expected = function(*args)
    try:
        for threads in (1, 2, 5):
            tt.set_num_threads(threads)
            same(tt.compile(function)(*args), expected)
    finally:
        tt.set_num_threads(before)
