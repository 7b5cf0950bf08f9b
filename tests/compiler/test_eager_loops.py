"""Compiled loops replace NumPy's passes in frequent eager calls and give bitwise identical results."""

import math
import os
import platform
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.random import box_muller, mersenne_draws, mersenne_normal, philox
from triten.cpu_fallback.random.draw_loops import words_loop
from triten.cpu_fallback.reduction import blocks as reduction_blocks
from triten.cpu_fallback.reduction import half_words
from triten.cpu_fallback.reduction.line_loops import (
    EXTREMA,
    LINE_SQUARE_SUMS,
    LINE_SUMS,
    RUN_SUMS,
    STREAMED_SUMS,
)
from triten.dispatch.core.dispatcher import Dispatcher
from triten.dispatch.structured import compiled_loops
from triten.runtime.cpu import background as background_compiler
from triten.runtime.cpu.background import background
from triten.runtime.cpu.loop_requests import DeferredLoop
from triten.runtime.cpu.object_code import target
from triten.runtime.generator import MersenneGenerator
from triten.runtime.mersenne_twister import MersenneTwister
from triten.tests.compiled_code import needs_llvm

pytestmark = needs_llvm

F = tt.nn.functional
SIDE = 190  # results of 64 KiB and more, which NumPy does not allocate itself
CALLS = compiled_loops.CALLS


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, Any]]]:
    """Record each stub that requests a loop after a few calls, and the loop."""
    found: list[tuple[str, Any]] = []
    tt.neg(tt.ones(2))  # the first kernel brings what makes loops
    load = compiled_loops._load_compiler
    assert load is not None
    compile_call = load()

    def recording(stub: str, *args: Any) -> Any:
        loop = compile_call(stub, *args)
        found.append((stub, loop))
        return loop

    monkeypatch.setattr(compiled_loops, "_load_compiler", lambda: recording)
    monkeypatch.setattr(compiled_loops, "COMPILE_THRESHOLD", 1)
    Dispatcher.singleton().forget_all()  # plans of other tests have their loops already
    yield found
    background.wait()


def bits(tensor: tt.Tensor) -> bytes:
    """Return the bytes of a tensor's elements, with every NaN made the same."""
    one_nan = tt.where(tensor.isnan(), float("nan"), tensor).contiguous()
    return one_nan.reshape(-1).view({2: tt.int16, 4: tt.int32}[tensor.element_size()]).numpy().tobytes()


def operand(dtype: tt.dtype, side: int = SIDE) -> tt.Tensor:
    """Return numbers of all magnitudes, with infinities, NaN and zeros of both signs."""
    made = tt.randn(side, side + 2) * 3
    made[0, :6] = tt.tensor([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-40])
    return made.to(dtype)


OPERATORS: dict[str, Callable[[tt.Tensor], tt.Tensor]] = {
    "addcdiv": lambda x: tt.addcdiv(x, x, x, value=0.3),
    "addcmul": lambda x: tt.addcmul(x, x, x),
    "clamp between tensors": lambda x: tt.clamp(*[tt.cat([x, each]) for each in (x, x.flip(0), x.flip(1))]),
    "copysign": lambda x: tt.copysign(x, x.flip(1)),
    "frac": tt.frac,
    "gelu": F.gelu,
    "gelu tanh": lambda x: F.gelu(x, approximate="tanh"),
    "hardshrink": lambda x: F.hardshrink(x, 0.7),
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "lerp": lambda x: tt.lerp(x, x + 1, 0.7),
    "lerp by weights": lambda x: tt.lerp(x, x.flip(0), x.flip(1)),
    "mish": F.mish,
    "nextafter": lambda x: tt.nextafter(x, x.flip(1)),
    "nextafter of equals": lambda x: tt.nextafter(x, x.clone()),
    "pow": lambda x: x**3,
    "rsqrt": tt.rsqrt,
    "sigmoid": tt.sigmoid,
    "sign": tt.sign,
    "silu": F.silu,
    "softshrink": lambda x: F.softshrink(x, 0.7),
    "softshrink of float64": lambda x: F.softshrink(x.double(), 0.7).float(),
    "threshold": lambda x: F.threshold(x, 0.1, -0.0),
    "row": lambda x: x * x[3],
    "column": lambda x: x + x[:, 3:4],
    "transposed": lambda x: tt.sigmoid(x.t()),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_a_loop_has_the_bits_of_the_passes(name: str, made: list[tuple[str, Any]]) -> None:
    """Compute the first calls by NumPy and later calls by a loop."""
    x = operand(tt.float32)
    results = [bits(OPERATORS[name](x)) for _ in range(CALLS)]
    background.wait()
    assert made[-1][1] is not None
    results.append(bits(OPERATORS[name](x)))
    assert all(each == results[0] for each in results)


RANGED: dict[str, Callable[[tt.Tensor], tt.Tensor]] = {
    "sin": tt.sin,
    "cos": tt.cos,
    "sin_": lambda x: x.clone().sin_(),
    "cos_": lambda x: x.clone().cos_(),
}


@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16], ids=str)
@pytest.mark.parametrize("name", [*RANGED, "log"])
def test_functions_of_numbers_in_range(name: str, dtype: tt.dtype, made: list[tuple[str, Any]]) -> None:
    """Compute sine and cosine of numbers beyond a loop's range by NumPy, also in place."""
    function = RANGED.get(name, tt.log)
    near = operand(dtype, 4 * SIDE if name.endswith("_") else SIDE)  # in place, NumPy computes fewer itself
    near[near.abs() == math.inf] = 7.0
    first = bits(function(near))
    for _ in range(CALLS - 1):
        function(near)
    background.wait()
    assert made[-1][0] == f"{name.rstrip('_')}_stub" and made[-1][1] is not None
    assert bits(function(near)) == first
    for far_number in (1e6, math.inf, -3e38):
        far = near.clone()
        far[-1, -1] = far_number
        exact = bits(tt.cat([function(far[i : i + 1].clone()) for i in range(len(far))]))
        assert bits(function(far)) == exact


REMAINDERS: dict[str, Callable[[tt.Tensor, tt.Tensor], tt.Tensor]] = {
    "fmod": tt.fmod,
    "remainder": tt.remainder,
    "remainder of a number": lambda a, b: tt.remainder(a, -0.7),
    "remainder_": lambda a, b: a.clone().remainder_(b),
}


@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16], ids=str)
@pytest.mark.parametrize("name", REMAINDERS)
def test_remainders(name: str, dtype: tt.dtype, made: list[tuple[str, Any]]) -> None:
    """Compute remainders of large quotients, of infinities and by zero by NumPy, also in place."""
    function = REMAINDERS[name]
    a, b = (operand(tt.float32).nan_to_num(3.0, -2.0, 0.0).to(dtype) for _ in range(2))
    b[b == 0] = 1.5
    b[b.abs() < 1e-3] = -0.5
    a[1, :4], b[1, :4] = tt.tensor([6.0, -6.0, 0.0, -0.0]), tt.tensor([-1.5, 1.5, -2.0, 2.0])
    far_a, far_b = a.clone(), b.clone()
    far_a[2, :4] = tt.tensor([3e38, math.inf, 1.0, math.nan])
    far_b[2, :4] = tt.tensor([1e-3, 2.0, 0.0, 1.0])
    first = [bits(function(a, b)), bits(function(far_a, far_b))]
    for _ in range(CALLS):
        function(a, b)
    background.wait()
    assert made[-1][1] is not None
    assert [bits(function(a, b)), bits(function(far_a, far_b))] == first


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16], ids=str)
@pytest.mark.parametrize(
    "function",
    [
        tt.add,
        tt.mul,
        tt.maximum,
        tt.div,
        lambda a, b: tt.relu(a),
        lambda a, b: tt.exp(b),
        lambda a, b: a.float(),
        lambda a, b: a * 2.5,
    ],
    ids=["add", "mul", "maximum", "div", "relu", "exp", "float", "number"],
)
def test_narrow_floats(
    function: Callable[..., tt.Tensor], dtype: tt.dtype, made: list[tuple[str, Any]]
) -> None:
    """Make loops for single-pass operators if they widen their operands first."""
    a, b = operand(dtype), operand(dtype).flip(0)
    results = [bits(function(a, b)) for _ in range(CALLS)]
    background.wait()
    assert made[-1][1] is not None
    assert bits(function(a, b)) == results[0]


@pytest.mark.parametrize("dtype", [tt.float16, tt.bfloat16], ids=str)
def test_conversions(dtype: tt.dtype, made: list[tuple[str, Any]]) -> None:
    """Convert from float32 with rounding to nearest even."""
    x = operand(tt.float32, SIDE + 4)  # no plan of an earlier test
    x[1] = tt.linspace(-7e4, 7e4, x.shape[1])
    x[2] = tt.linspace(-1e-7, 1e-7, x.shape[1])
    results = [bits(x.to(dtype)) for _ in range(CALLS)]
    background.wait()
    assert made[-1][0] == "copy_stub"
    assert bits(x.to(dtype)) == results[0]


def rows(dtype: tt.dtype, *sizes: int) -> tt.Tensor:
    """Return rows of numbers of all magnitudes; the first have infinities, NaN, zeros and ties."""
    made = tt.randn(*sizes) * 3
    flat = made.view(-1, sizes[-1])
    flat[0, :6] = tt.tensor([0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-40])
    flat[1], flat[2, 3], flat[3] = -7.0, float("inf"), float("-inf")
    flat[4] += 300
    return made.to(dtype)


def by_aten(name: str, *args: Any) -> Callable[[tt.Tensor], Any]:
    return lambda x: getattr(tt.ops.aten, name)(x, *args)


ROWS: dict[str, Callable[[tt.Tensor], Any]] = {
    "softmax": lambda x: x.softmax(-1),
    "softmax backward": lambda x: tt.ops.aten._softmax_backward_data(x.flip(0).contiguous(), x, -1, x.dtype),
    "log_softmax": lambda x: x.log_softmax(-1),
    "log_softmax backward": lambda x: tt.ops.aten._log_softmax_backward_data(x.flip(0), x, -1, x.dtype),
    "layer_norm": lambda x: tt.native_layer_norm(x, x.shape[-1:], x[5].flatten()[-x.shape[-1] :], None, 1e-5),
    "layer_norm of numbers": lambda x: tt.native_layer_norm(
        x, x.shape[-1:], None, x.view(-1, x.shape[-1])[6], 0.1
    ),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:], x.view(-1, x.shape[-1])[6]),
    "logsumexp": lambda x: x.logsumexp(-1),
}


@pytest.mark.parametrize("sizes", [(8, 9, 610), (130, 1024)], ids=str)
@pytest.mark.parametrize("dtype", [tt.float32, tt.bfloat16], ids=str)
@pytest.mark.parametrize("name", ROWS)
def test_rows(name: str, dtype: tt.dtype, sizes: tuple[int, ...], made: list[tuple[str, Any]]) -> None:
    """Run kernels over rows with all of their outputs; loops widen 16-bit floats.

    Norms of float32 are compiled at once, so nothing replaces their loops.
    """
    x = rows(dtype, *sizes)

    def results() -> list[bytes]:
        found = ROWS[name](x)
        return [bits(each) for each in (found if isinstance(found, tuple) else (found,))]

    expected = [results() for _ in range(CALLS)]
    background.wait()
    if dtype is tt.float32:
        stubs = [stub for stub, loop in made if loop is not None]
        assert any(name.split()[0] in stub for stub in stubs) == ("_norm" not in name), stubs
    assert results() == expected[0] == expected[-1]


def test_rows_that_are_written_over_their_input(made: list[tuple[str, Any]]) -> None:
    """Fall back to NumPy if a row kernel writes over its input."""
    x = rows(tt.float32, 90, 700)
    expected = x.softmax(-1)
    for _ in range(CALLS + 1):
        y = x.clone()
        tt.softmax(y, -1, out=y)
        assert bits(y) == bits(expected)
        background.wait()


def test_in_place_forms_read_what_they_write(made: list[tuple[str, Any]]) -> None:
    """Read each element before writing it in the loop of an in-place operator."""
    y, z = operand(tt.float32), operand(tt.float32)
    results = []
    for _ in range(CALLS + 1):
        x = z.clone()
        x.addcmul_(x, y, value=0.5)
        results.append(bits(x))
        background.wait()
    assert [stub for stub, loop in made if loop is not None] == ["addcmul_stub"]
    assert all(each == results[0] for each in results)


def test_each_number_has_a_loop_of_its_own(made: list[tuple[str, Any]]) -> None:
    """Call one plan with several numbers; the sign of zero counts."""
    x = operand(tt.float32, SIDE + 1)
    for value in (0.5, -0.0, 0.0):
        first = bits(F.threshold(x, 0.25, value))
        for _ in range(CALLS):
            assert bits(F.threshold(x, 0.25, value)) == first
        background.wait()
        assert bits(F.threshold(x, 0.25, value)) == first
    assert len(made) == 3


def test_numbers_of_a_plan_are_few(made: list[tuple[str, Any]]) -> None:
    """Make no loop for a number that changes at each call."""
    x = operand(tt.float32, SIDE + 2)
    for step in range(5 * compiled_loops.MAX_LOOPS):
        tt.lerp(x, x, step / 100)
    background.wait()
    assert made == []


def test_few_elements_and_few_calls_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a loop only for long work."""
    monkeypatch.setattr(background, "ask", lambda request: pytest.fail("a loop is asked for"))
    monkeypatch.setattr(background, "is_warm", False)
    small = tt.randn(80, 80)
    for _ in range(20):
        F.gelu(small)
    large = tt.randn(300, 300)
    for _ in range(20):
        F.gelu(large)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_makes_loops_too(made: list[tuple[str, Any]]) -> None:
    """Wait in a fork for the loop that is being compiled; the child starts its own thread."""
    x = operand(tt.float32, SIDE + 3)
    for _ in range(CALLS):
        wanted = bits(tt.sigmoid(x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
        child = os.fork()
    if not child:
        code = 1
        try:
            for _ in range(CALLS):
                F.silu(x)
            background.wait()
            code = 0 if made[-1][0] == "silu_stub" and bits(tt.sigmoid(x)) == wanted else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def loop_of(deferred: DeferredLoop) -> Callable[..., None] | None:
    """Return the loop, and compile it if it does not exist."""
    if deferred.loop is None:
        deferred.done = 0
        deferred.beside(deferred.compile_threshold)
        background.wait()
    return deferred.loop


def test_without_a_thread_no_loop_is_made_and_the_next_request_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = background_compiler._Background()
    made: list[int] = []

    def refuse(function: Callable[..., None], arguments: tuple[Any, ...]) -> int:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(background_compiler, "start_new_thread", refuse)
        own.ask(lambda: made.append(1))
        own.wait()
    assert made == []
    own.ask(lambda: made.append(2))
    own.wait()
    assert made == [2]


def require_sums(deferred: DeferredLoop, dtype: tt.dtype) -> None:
    """Skip where NumPy adds in another order than vectors of 128 bits do: on x86-64, a loop is missed by a fault."""
    if loop_of(deferred) is not None:
        return
    found = target()
    converts = found is not None and (found.converts_half or dtype != tt.float16)
    assert not converts or platform.machine() not in ("x86_64", "AMD64")
    pytest.skip(f"{dtype}: this processor's NumPy adds in another order, or none converts float16")


def test_a_deferred_loop_is_made_when_it_is_worth_it() -> None:
    """Count the work done before, and request a loop only once."""
    deferred = DeferredLoop(words_loop, 100)
    assert deferred.beside(60) is None
    assert deferred.beside(60) is None
    background.wait()
    assert deferred.beside(60) is not None
    assert deferred.done == 120


@pytest.mark.parametrize("seed", [0, 0xDEADBEEFCAFE1234])
@pytest.mark.parametrize("first", [0, (1 << 32) - 50, (1 << 64) - 50])
def test_words_of_counters(seed: int, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare a loop's random words with those of the NumPy passes, also where a counter's halves carry."""
    made = np.empty((100, 4), np.uint32)
    wanted = made.copy()
    assert loop_of(philox._loop) is not None
    philox.fill_words(made, seed, first)
    monkeypatch.setattr(philox._loop, "loop", None)
    philox.fill_words(wanted, seed, first)
    assert made.tolist() == wanted.tolist()


@pytest.mark.parametrize("parameters", [(0.0, 1.0), (0.3, 0.7)])
def test_normal_numbers_of_a_mersenne_twister(
    parameters: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compare a loop's normal numbers with those of the NumPy passes, also for the least and greatest
    uniform numbers.
    """
    if loop_of(mersenne_normal.LOOP) is None:
        found = target()
        assert found is None or not found.fuses
        pytest.skip("this processor has no fused multiply-add")
    uniform = MersenneTwister(3).singles(1 << 16)
    ends = np.array([i / 8 + d * 2.0**-24 for i in range(9) for d in (-1, 0, 1)], np.float32).clip(
        0, 1 - 2**-24
    )
    radial, angular = np.meshgrid(ends, ends)
    pairs = uniform[: 16 * 91].reshape(91, 2, 8)
    pairs[:, 0].flat[: radial.size], pairs[:, 1].flat[: angular.size] = radial.ravel(), angular.ravel()
    made, wanted = np.empty_like(uniform), np.empty_like(uniform)
    mersenne_normal._grouped32(made, uniform, *parameters)
    monkeypatch.setattr(mersenne_normal.LOOP, "loop", None)
    mersenne_normal._grouped32(wanted, uniform, *parameters)
    assert made.tobytes() == wanted.tobytes()


def test_shuffles_of_a_mersenne_twister(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare a loop's permutations with those of the NumPy passes."""
    assert loop_of(mersenne_draws.SHUFFLE) is not None
    generator = MersenneGenerator()
    made = [tt.randperm(count, generator=generator.manual_seed(1)) for count in (1, 2, 5000)]
    monkeypatch.setattr(mersenne_draws.SHUFFLE, "loop", None)
    for order in made:
        assert tt.equal(tt.randperm(len(order), generator=generator.manual_seed(1)), order)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_normal_numbers(dtype: Any, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare a loop's pairs with those of the NumPy passes, at the ends of the range and at quarter turns
    too.
    """
    largest = np.iinfo(dtype).max
    draws = rng.integers(0, largest, 2 * 700, dtype, endpoint=True)
    quarters = [i * (largest // 4 + 1) + d for i in range(4) for d in (-1, 0, 1)]
    draws[1 : 2 * len(quarters) : 2] = [min(max(q, 0), largest) for q in quarters]
    draws[:4] = 0, 0, largest, largest
    named = box_muller.LOOPS[draws.itemsize]
    assert loop_of(named) is not None
    made = box_muller.normal_pairs(draws)
    monkeypatch.setattr(named, "loop", None)
    wanted = box_muller.normal_pairs(draws)
    assert np.isfinite(wanted).all()
    assert made.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("dtype", [tt.bfloat16, tt.float16], ids=str)
@pytest.mark.parametrize("shape", [(70, 96), (9, 2048), (5, 4096), (3, 5000), (140_000,), (2, 300_000)])
def test_sums_of_halves(dtype: tt.dtype, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Add in the order of the NumPy passes; leave rows that are no whole number of runs to the passes."""
    x = (tt.randn(shape) * 5).to(dtype)
    named = half_words._LOOPS[dtype]
    require_sums(named, dtype)
    made = [bits(x.sum(d, dtype=tt.float32)) for d in (-1, None)]
    monkeypatch.setattr(named, "loop", None)
    assert made == [bits(x.sum(d, dtype=tt.float32)) for d in (-1, None)]


LINES = [(400, 96), (9, 2048), (130, 512), (140_000,), (9, 30_000), (257, 100), (3, 70_001), (5000, 1030)]


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("shape", LINES)
def test_lines_of_float32(shape: tuple[int, ...], streams: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give reductions of lines that are bitwise identical to NumPy's passes, on any number of threads."""
    if streams:
        monkeypatch.setattr(reduction_blocks, "SHARED_BYTES", 1 << 12)
    x = operand(tt.float32)[2].mean() + tt.randn(shape) * 5
    x.view(-1)[::7], x.view(-1)[3::7] = 0.0, -0.0
    loops = [LINE_SQUARE_SUMS, LINE_SUMS, RUN_SUMS, STREAMED_SUMS, *EXTREMA.values()]
    for each in loops:
        require_sums(each.deferred, tt.float32)

    def results(values: tt.Tensor) -> list[Any]:
        rows = [f(values, dim=-1) for f in (tt.sum, tt.mean, tt.var, tt.norm, tt.amax, tt.amin)]
        rows += [f(values, -1, keepdim=True) for f in (tt.sum, tt.amax)]
        whole = (values.sum(), values.mean(), values.norm(), values.var(), values.amax(), values.amin())
        return [bits(each) for each in (*rows, *whole)]

    nan, infinite = x.clone(), x.clone()
    nan.view(-1)[-3], infinite.view(-1)[5] = math.nan, math.inf
    before, made = tt.get_num_threads(), []
    try:
        for threads in (1, 3):
            tt.set_num_threads(threads)
            made.append([results(each) for each in (x, nan, infinite)])
    finally:
        tt.set_num_threads(before)
    assert made[0] == made[1]
    for each in loops:
        monkeypatch.setattr(each.deferred, "loop", None)
        monkeypatch.setattr(each.deferred, "done", each.deferred.compile_threshold)
    plain = [results(each) for each in (x, nan, infinite)]
    assert made[0] == plain
    exact = x.double().sum(-1)
    assert ((x.sum(-1).double() - exact).abs() <= 1e-5 * x.double().abs().sum(-1)).all()


def test_a_plan_of_few_elements_serves_many_by_loops(made: list[tuple[str, Any]]) -> None:
    """Make a loop of a shared plan for each frequent size, and none for other sizes."""
    F.silu(tt.randn(10))
    x = operand(tt.float32, SIDE + 5)
    results = [bits(F.silu(x)) for _ in range(CALLS)]
    for size in range(19000, 19040):
        F.silu(tt.ones(size))
    background.wait()
    assert [stub for stub, _ in made] == ["silu_stub"]
    assert bits(F.silu(x)) == results[0]


@pytest.mark.parametrize("function", [tt.add, tt.maximum, lambda a, b: tt.lerp(a, b, 0.25)])
def test_a_loop_of_one_shape_is_not_one_of_repeated_operands(
    made: list[tuple[str, Any]], function: Callable[[tt.Tensor, tt.Tensor], tt.Tensor]
) -> None:
    a, b, column = tt.randn(513, 260), tt.randn(513, 260), tt.randn(513, 1)
    for _ in range(2 * CALLS):
        function(a, b)
    background.wait()
    for one, other in ((a, column), (column, a)):  # plans that serve other shapes have the loop of this one
        want = function(one.expand_as(a).contiguous(), other.expand_as(a).contiguous())
        assert bits(function(one, other)) == bits(want)
