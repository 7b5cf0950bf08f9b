"""Compiled loops are bitwise identical to eager.

The tests cover every operator, dtype and layout of the loops, special numbers, and all threads.
"""

import itertools
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.compiler.host import pointwise
from triten.compiler.host.lowering import LOWERINGS
from triten.runtime.cpu import llvm_compiler, object_code
from triten.runtime.cpu.element_loop import Loop
from triten.tests.compiled_code import needs_llvm
from triten.tests.compiler.beside_eager import agree, drawn, same

F = tt.nn.functional
FLOATS = (tt.float16, tt.bfloat16, tt.float32, tt.float64)
INTEGERS = (tt.int8, tt.uint8, tt.int16, tt.int32, tt.int64)
SPECIAL = (
    math.nan,
    math.inf,
    -math.inf,
    0.0,
    -0.0,
    1.0,
    -1.0,
    1e-45,
    1e-40,
    65504.0,
    65520.0,
    3e38,
    -3e38,
    0.5,
    2.5,
)


def steps_of(function: Callable[..., Any], *args: Any) -> list[list[Any]]:
    """Return the steps of each kernel of a function."""
    from triten.compiler.host.loops import stages_of

    found = [stages_of(kernel) for kernel in tt.compiler.explain(function, *args).schedules[0].kernels]
    assert found
    return [[] if stages is None else list(stages.steps) for stages in found]


def is_one_loop(function: Callable[..., Any], *args: Any) -> bool:
    """Return True if each kernel of a function is one compiled loop."""
    return all(len(steps) == 1 and isinstance(steps[0], Loop) for steps in steps_of(function, *args))


def joined(function: Callable[[tt.Tensor, tt.Tensor], Any]) -> Callable[[tt.Tensor, tt.Tensor], Any]:
    """Return a function that compiles to one kernel, because its steps share producers."""

    def whole(x: tt.Tensor, y: tt.Tensor) -> Any:
        x, y = x * 1, y * 1
        return (x * y, *function(x, y))

    return whole


def pairs(dtype: Any) -> tuple[tt.Tensor, tt.Tensor]:
    """Return pairs of every two special numbers, and pairs of random bits."""
    both = np.array(list(itertools.product(SPECIAL, SPECIAL))).T
    rng = np.random.default_rng(5)
    with np.errstate(all="ignore"):
        random = rng.integers(0, 1 << 32, (2, 300), dtype=np.uint64).astype(np.uint32).view(np.float32)
    x, y = (
        tt.tensor([*map(float, a), *map(float, b)], dtype=tt.float64)
        for a, b in zip(both, random, strict=True)
    )
    return x.to(tt.float32).to(dtype), y.to(tt.float32).to(dtype)


OF_FLOATS: dict[str, Callable[[tt.Tensor, tt.Tensor], Any]] = {
    "arithmetic": lambda x, y: (x + y, x - y, x * y, x / y, x.add(y, alpha=3), x.sub(y, alpha=0.3), 2 - x),
    "numbers": lambda x, y: (x + 0.1, x * 3, x / 7, y - 1e-3, x + -0.0, x * 1.0, 1 / y),
    "roots": lambda x, y: (x.sqrt(), y.rsqrt(), x.reciprocal(), y.abs(), -x, x.sign(), x.sgn()),
    "rounding": lambda x, y: (x.floor(), x.ceil(), x.round(), x.trunc(), x.div(y, rounding_mode="trunc")),
    "comparisons": lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y, x > 0.1, x == 0.1, x.isnan()),
    "extremes": lambda x, y: (x.maximum(y), x.minimum(y), x.clamp(-1, 2.5), x.clamp(min=0.0), x.clamp(max=-0.0),
                              x.clamp_min(y), x.relu(), (x * y).relu()),
    "choices": lambda x, y: (tt.where(x > y, x, y), tt.where(x > 0, x, 0.5), (x > 0).logical_not() * x,
                             x.logical_and(y), x.logical_or(y), x.logical_xor(y), x.signbit()),
    "sums of products": lambda x, y: (tt.addcmul(x, y, x), tt.addcmul(x, y, y, value=0.7), tt.addcdiv(x, y, x),
                                      tt.addcdiv(x, x, y, value=2), x.lerp(y, 0.3), x.lerp(y, 0.8)),
    "activations": lambda x, y: (F.leaky_relu(x, 0.1), F.leaky_relu(x, -2.0), F.hardswish(x + 0), F.hardsigmoid(y),
                                 F.threshold(x, 0.1, 20.0), F.hardshrink(x), F.hardshrink(y + 0, 0.3),
                                 F.softshrink(y, 0.3), F.softshrink(x * 1)),
}  # fmt: skip


@needs_llvm
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("family", OF_FLOATS)
def test_functions_of_floats(family: str, dtype: Any) -> None:
    function = joined(OF_FLOATS[family])
    agree(function, lambda: pairs(dtype), calls=1)
    assert is_one_loop(function, *pairs(dtype))


@needs_llvm
@pytest.mark.parametrize("dtype", [tt.float32, tt.float64], ids=str)
def test_powers_and_gradients(dtype: Any) -> None:
    def f(x: tt.Tensor, y: tt.Tensor) -> Any:
        x, y = x * 1, y * 1
        powers = [x**e for e in (0.5, 1.0, 2, 3, -0.5, -1, -2)]
        aten = tt.ops.aten
        gradients = (
            aten.tanh_backward(x, y),
            aten.sigmoid_backward(x, y),
            aten.threshold_backward(x, y, 0.5),
            aten.leaky_relu_backward(x, y, 0.1, False),
        )
        return (*powers, *gradients)

    agree(f, lambda: pairs(dtype), calls=1)
    assert is_one_loop(f, *pairs(dtype))


@needs_llvm
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_functions_of_integers(dtype: Any) -> None:
    def f(x: tt.Tensor, y: tt.Tensor) -> Any:
        return (
            x + y, x - y, x * y, x.abs(), x & y, x | y, x ^ 5, ~x, x << 3, x >> 2, x // 3, x % 3, x.fmod(3), x // 7,
            x.div(5, rounding_mode="floor"), x.div(5, rounding_mode="trunc"), x / 3, x / y, x.sign(), x > y, x <= 3,
            x.maximum(y), x.minimum(y), x.clamp(1, 9), x.relu(), x.bool(), x.float(), x.double(), tt.where(x > y, x, 3),
        )  # fmt: skip

    def made() -> tuple[tt.Tensor, tt.Tensor]:
        limits = tt.iinfo(dtype)
        edges = [limits.min, limits.min + 1, -1, 0, 1, 2, 3, 7, limits.max - 1, limits.max]
        both = [p for p in itertools.product(edges, edges) if limits.min <= min(p)]
        return tuple(tt.tensor(column, dtype=dtype) for column in zip(*both, strict=True))

    agree(f, made, calls=1)
    assert is_one_loop(f, *made())


@needs_llvm
@pytest.mark.parametrize("divisor", [-7, -3, -2, 1, 2, 10])
def test_integer_division_by_a_number(divisor: int) -> None:
    def f(x: tt.Tensor) -> Any:
        x = x + 0
        return x // divisor, x % divisor, x.fmod(divisor), x.div(divisor, rounding_mode="trunc")

    agree(f, lambda: (tt.cat([tt.arange(-30, 30), tt.tensor([-(1 << 63), (1 << 63) - 1])]),), calls=1)


@pytest.mark.parametrize("divisor", [0, -1])
def test_integer_division_that_loops_do_not_have(divisor: int) -> None:
    def f(x: tt.Tensor) -> Any:
        return (x + 0) // divisor

    x = tt.tensor([-(1 << 31), 0, 5], dtype=tt.int32)
    if divisor:
        same(tt.compile(f)(x), f(x))
        return
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        tt.compile(f)(x)


@needs_llvm
def test_functions_of_booleans() -> None:
    def f(a: tt.Tensor, b: tt.Tensor) -> Any:
        return (
            a & b,
            a | b,
            a ^ b,
            ~a,
            a + b,
            a * b,
            a == b,
            a.logical_not(),
            a.int() + b,
            a.half(),
            a.maximum(b),
        )

    def made() -> tuple[tt.Tensor, tt.Tensor]:
        return tt.tensor([True, True, False, False]), tt.tensor([True, False, True, False])

    agree(f, made, calls=1)
    assert is_one_loop(f, *made())


@needs_llvm
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_casts_of_floats(source: Any) -> None:
    def f(x: tt.Tensor) -> Any:
        x = x + 0
        return tuple(x.to(dtype) for dtype in (*FLOATS, *INTEGERS, tt.bool))

    near = [2.0**p + d for p in (7, 8, 15, 16, 31, 32, 62, 63, 64) for d in (-1, -0.5, 0, 0.5, 1)]
    numbers = [*SPECIAL, *near, *(-n for n in near)]
    agree(f, lambda: (tt.tensor(numbers, dtype=source),), calls=1)


LAYOUTS: dict[str, Callable[[], tt.Tensor]] = {
    "contiguous": lambda: drawn(3, 70, 40),
    "transposed": lambda: drawn(3, 40, 70).transpose(1, 2),
    "outermost last": lambda: drawn(70, 40, 3).permute(2, 0, 1),
    "sliced": lambda: drawn(6, 140, 90)[::2, ::2, 5:85:2],
    "a row": lambda: drawn(40),
    "a column": lambda: drawn(70, 1),
    "expanded": lambda: drawn(3, 1, 40).expand(3, 70, 40),
    "one element": lambda: drawn(1, 1),
    "a scalar": lambda: drawn(),
    "an offset": lambda: drawn(8401)[1:].view(3, 70, 40),
    "backwards": lambda: drawn(3, 70, 40).flip(1),
}


@needs_llvm
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, shared: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from triten.compiler.host import loops

    if shared:
        monkeypatch.setattr(loops, "SHARED_FROM", 0)
        monkeypatch.setattr(loops, "PART", 1000)
        monkeypatch.setattr(loops, "TILE", 16)
        monkeypatch.setattr(loops, "TURNED_FROM", 0)

    def f(x: tt.Tensor, y: tt.Tensor) -> Any:
        total = (x + y) * 2
        return total, total > y, (total - x).to(tt.bfloat16)

    agree(f, lambda: (LAYOUTS["contiguous"](), LAYOUTS[layout]() * 1), calls=1)
    agree(f, lambda: (LAYOUTS["contiguous"](), LAYOUTS[layout]()), calls=1)


@needs_llvm
@pytest.mark.parametrize("size", [2, 3, 15, 16, 17, 4095, 4096, 4097, 70001])
def test_sizes(size: int) -> None:
    agree(lambda x, y: ((x + y) * x).relu(), lambda: (drawn(size, seed=1), drawn(size, seed=2)), calls=1)


@pytest.mark.parametrize(
    "dtype", [tt.complex64, tt.complex32, tt.float8_e4m3fn, tt.float8_e5m2, tt.uint16], ids=str
)
def test_dtypes_that_loops_do_not_all_have(dtype: Any) -> None:
    def f(x: tt.Tensor, wide: tt.Tensor) -> Any:
        mask = wide > 0
        y = tt.where(mask, x, x[0])
        return y, tt.where(mask, y, 0), y.to(tt.complex64) * 2 + 1, y != x, y.clone(), (wide + 1).to(dtype)

    agree(f, lambda: (drawn(30).abs().to(dtype), drawn(30)), calls=1)


@needs_llvm
def test_an_array_that_is_read_twice_by_one_step() -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        z = (x * 2).exp()
        w = tt.remainder(z, z)
        return (w + 1).exp() * (w - x).exp()

    agree(f, lambda: (drawn(30),))


@needs_llvm
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from triten.compiler.host import loops

    monkeypatch.setattr(loops, "SHARED_FROM", 0)
    monkeypatch.setattr(loops, "PART", 100)
    before = tt.get_num_threads()
    tt.set_num_threads(threads)
    try:
        agree(lambda x, y: (x * y + 0.5, (x - y).abs()), lambda: (drawn(50, 40, seed=1), drawn(40, 50).t()))
    finally:
        tt.set_num_threads(before)


def mixed(x: tt.Tensor, y: tt.Tensor) -> Any:
    """Alternate loops, ufuncs and operators that NumPy computes as a whole."""
    z = (x * 2 + y).sigmoid()
    w = tt.remainder(z - y, 0.7) + (x.tanh() - z).exp() * 0.5
    return w, F.silu(w) + tt.log1p(z * z), z > 0.5, F.gelu(x * y) - F.gelu(w, approximate="tanh"), x.exp()


@needs_llvm
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_loops_around_passes_of_numpy(dtype: Any) -> None:
    agree(mixed, lambda: pairs(dtype), calls=1)
    agree(mixed, lambda: (drawn(40, 50, dtype=dtype), drawn(50, 40, dtype=dtype).t()), calls=1)
    agree(mixed, lambda: (drawn(40, 50, dtype=dtype), drawn(1, 50, dtype=dtype)), calls=1)
    ((*steps,),) = steps_of(mixed, *pairs(dtype))
    assert 2 < sum(isinstance(step, Loop) for step in steps) < len(steps)


@needs_llvm
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "a row", "a scalar", "an offset"])
def test_loops_around_passes_of_numpy_in_blocks(layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointwise, "BLOCK_BYTES", 4000)
    monkeypatch.setattr(pointwise, "WHOLE_UP_TO", 4)
    monkeypatch.setattr(pointwise, "SHARED_FROM", 256)

    def f(x: tt.Tensor, y: tt.Tensor) -> Any:
        z = (x * 2 + y).sigmoid()
        return z, (z - y.exp()).tanh() * 0.5, x.to(tt.float64)

    agree(f, lambda: (LAYOUTS["contiguous"](), LAYOUTS[layout]()), calls=1)


@needs_llvm
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_many_elements(dtype: Any) -> None:
    def f(x: tt.Tensor) -> Any:
        y = x * 1
        return (
            y.relu(),
            F.gelu(y),
            F.gelu(y, approximate="tanh"),
            F.silu(y),
            y.sign(),
            y.sigmoid(),
            y.exp() - 1,
        )

    def made() -> tuple[tt.Tensor]:
        return (tt.cat([pairs(dtype)[0], drawn(20000, dtype=dtype) * 4, pairs(dtype)[1]]),)

    agree(f, made, calls=1)


@needs_llvm
def test_threads_that_compile_and_call_at_once() -> None:
    x = drawn(10000)
    functions = [lambda x, n=n: (x * n + 0.25) / (n + 3) for n in range(6)]
    expected = [f(x) for f in functions]

    def work(_: int) -> list[tt.Tensor]:
        compiled = [tt.compile(f) for f in functions]
        return [[f(x) for f in compiled] for _ in range(3)][-1]

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(work, range(8)):
            same(found, expected)


@needs_llvm
def test_results_that_are_inputs_or_come_twice() -> None:
    agree(lambda x: (x.clone(), (x + 1) * 2, (1 + x) * 2, x.to(tt.float64)), lambda: (drawn(30),))

    def f(x: tt.Tensor) -> Any:
        y = x.exp() * 2
        return y, y.clone(), x.exp(), x.exp().clone(), tt.log1p(y), tt.log1p(y).clone()

    agree(f, lambda: (drawn(30),))


@pytest.mark.parametrize("family", OF_FLOATS)
def test_without_llvm(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pointwise, "is_possible", lambda: False)
    agree(joined(OF_FLOATS[family]), lambda: pairs(tt.float32), calls=1)


@needs_llvm
def test_rows_are_those_of_kernels() -> None:
    from triten.dispatch.structured.stub import find_kernel, is_registered

    for stub in LOWERINGS:
        # Composites have host kernels.
        name = f"{stub}_host_stub" if is_registered(f"{stub}_host_stub", "cpu") else f"{stub}_stub"
        assert find_kernel(name, "cpu", stub) is not None


PROGRAM = """
import json, sys
import triten as tt
from triten.runtime.cpu.object_code import counts

assert "llvmlite" not in sys.modules
f = tt.compile(lambda a, b: tt.relu((a + b) * 3.5))
x = tt.arange(1000).float()
print(json.dumps([f(x, -x / 2).sum().item(), counts]))
"""


def run_program(folder: Path) -> Any:
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM],
        capture_output=True,
        text=True,
        env={**os.environ, "TRITEN_CACHE_DIR": str(folder)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_llvm
def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    first, counts = run_program(tmp_path)
    assert counts == {"compiled": 1, "read": 0}
    assert run_program(tmp_path) == [first, {"compiled": 0, "read": 1}]


def compiled_anew(number: float) -> dict[str, int]:
    """Count compilations and reads from disk of a function when the process has no loops loaded."""
    object_code._loaded.clear()
    before = dict(object_code.counts)
    agree(lambda x: (x + number) * 2, lambda: (drawn(9),), calls=1)
    return {name: object_code.counts[name] - before[name] for name in before}


@needs_llvm
def test_a_damaged_entry_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITEN_CACHE_DIR", str(tmp_path))
    assert compiled_anew(1.375) == {"compiled": 1, "read": 0}
    assert compiled_anew(1.375) == {"compiled": 0, "read": 1}
    (entry,) = (tmp_path / "objects").iterdir()
    data = bytearray(entry.read_bytes())
    data[len(data) // 2] ^= 1
    entry.write_bytes(bytes(data))
    assert compiled_anew(1.375) == {"compiled": 1, "read": 0}
    assert compiled_anew(1.375) == {"compiled": 0, "read": 1}


@needs_llvm
def test_what_cannot_be_kept_is_compiled_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "objects").write_text("a file in the folder's place")
    monkeypatch.setenv("TRITEN_CACHE_DIR", str(tmp_path))
    assert compiled_anew(1.5) == compiled_anew(1.5) == {"compiled": 1, "read": 0}
    monkeypatch.setenv("TRITEN_CACHE_DIR", str(tmp_path / "other"))
    monkeypatch.setenv("TRITEN_CACHE_MAXSIZE", "0")
    assert compiled_anew(1.5) == compiled_anew(1.5) == {"compiled": 1, "read": 0}
    assert not (tmp_path / "other").exists()


@needs_llvm
def test_explanations_say_how_kernels_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        return ((x + 1) * 2).relu()

    assert tt.compiler.explain(f, drawn(9)).execution == ("add_mul_relu: one compiled loop",)
    assert "add_mul_relu: one compiled loop" in str(tt.compiler.explain(f, drawn(9)))
    monkeypatch.setattr(pointwise, "is_possible", lambda: False)
    assert tt.compiler.explain(f, drawn(9)).execution == ("add_mul_relu: 3 passes of NumPy",)


@needs_llvm
def test_loops_go_with_the_functions_that_have_them() -> None:
    import gc

    compiled = tt.compile(lambda x: (x * 3.125 - 17.5) * 2.25)
    compiled(drawn(20))
    known = len(object_code._loaded)
    assert known
    del compiled
    tt.compiler.reset()
    gc.collect()
    assert len(object_code._loaded) < known


def test_passes_of_llvm_are_freed_once() -> None:
    freed: list[Any] = []
    own = type("NewPassManager", (), {"_dispose": freed.append})
    reference = type("ObjectRef", (), {"_dispose": lambda self: None})
    hidden, found = type("Passes", (reference, own), {})(), type("Passes", (own, reference), {})()
    for passes in (hidden, found, object()):
        llvm_compiler._dispose(passes)
    assert freed == [hidden], "what frees itself is left to do so"
