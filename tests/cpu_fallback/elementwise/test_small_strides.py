"""Pointwise kernels over elements with small strides on both sides: columns of narrow matrices, every n-th
element.

NumPy has a separate loop for each pair of strides, and some are wrong in some versions.
"""

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten import cpu_fallback

STEPS = (1, 2, 3, 4, 8, 16, -4)
WRONG_IN_NUMPY = {"negative", "isfinite"}
"""Ufuncs with a wrong loop in NumPy 2.4: `negative` is gone around, `isfinite` is never given an output."""
FOLDER = Path(cpu_fallback.__path__[0])


def ufuncs_used() -> list[str]:
    """Return the names of NumPy's ufuncs that the CPU kernels name."""
    found = {name for path in FOLDER.rglob("*.py") for name in re.findall(r"\bnp\.(\w+)", path.read_text())}
    return sorted(
        n for n in found if isinstance(getattr(np, n, None), np.ufunc) and not getattr(np, n).signature
    )


def spread(values: np.ndarray, step: int) -> np.ndarray:
    """Return the values with gaps between them, which hold other numbers."""
    room = np.full(len(values) * abs(step), 2, values.dtype)
    room[::step] = values
    return room[::step]


def is_wrong(ufunc: np.ufunc, kinds: str, size: int, rng: np.random.Generator) -> bool:
    sources, results = kinds.split("->")
    operands = [rng.integers(1, 5, size).astype(kind) for kind in sources]
    wanted = ufunc(*operands)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    for step, out_step in itertools.product(STEPS, STEPS):
        outputs = tuple(spread(np.zeros(size, kind), out_step) for kind in results)
        ufunc(*[spread(operand, step) for operand in operands], out=outputs)
        for made, right in zip(outputs, wanted, strict=True):
            if not np.allclose(made, right, rtol=1e-3, atol=1e-6, equal_nan=True):
                return True
    return False


@pytest.mark.parametrize("name", ufuncs_used())
def test_numpy_computes_the_same_for_every_stride(name: str, rng) -> None:
    """Check NumPy's ufuncs for every stride.

    If this fails for a ufunc, kernels must not call it on two strided arrays; see `pointwise_math.negative`.
    """
    if name in WRONG_IN_NUMPY:
        pytest.skip("known, and avoided by the kernels")
    ufunc = getattr(np, name)
    with np.errstate(all="ignore"):
        for kinds in ufunc.types:
            if not set(kinds) & set("OMmegG"):
                assert not is_wrong(ufunc, kinds, 37, rng), kinds


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.stem)
def test_no_kernel_gives_isfinite_an_output(path: Path) -> None:
    assert not re.search(r"isfinite\((?:[^()]|\([^()]*\))*,", path.read_text())


UNARY = """abs acos acosh angle asin asinh atan atanh bitwise_not ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2
expm1 floor frac i0 isfinite isinf isnan isneginf isposinf lgamma log log10 log1p log2 logical_not logit neg positive
rad2deg reciprocal relu round rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc clamp"""
BINARY = """add sub mul div maximum minimum fmax fmin fmod remainder floor_divide pow atan2 hypot copysign
logaddexp eq ne lt le gt ge xlogy bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor nextafter ldexp
heaviside rsub gcd lcm"""
COUNTS = {
    **dict.fromkeys(UNARY.split(), 1),
    **dict.fromkeys(BINARY.split(), 2),
    **dict.fromkeys(("addcmul", "addcdiv", "lerp"), 3),
}
"""How many tensors each operator takes."""


def call(name: str, operands: list[Any], **options: Any) -> Any:
    return getattr(tt, name)(*operands, **({"max": 3} if name == "clamp" else {}), **options)


@pytest.mark.parametrize("name", COUNTS)
def test_pointwise_operators_of_columns(name: str, rng) -> None:
    tried = 0
    for dtype in ("float32", "float64", "int32", "int64", "complex64"):
        operands = [tt.from_numpy(rng.integers(1, 5, 37)).to(getattr(tt, dtype)) for _ in range(COUNTS[name])]
        try:
            wanted = call(name, operands)
        except (RuntimeError, NotImplementedError, TypeError):
            continue
        tried += 1
        for step, out_step in itertools.product((2, 4, 8, 16), (1, 2, 4, 8)):
            columns = [tt.stack([x] * step, 1)[:, step // 2] for x in operands]
            right = wanted.numpy()
            assert np.array_equal(call(name, columns).numpy(), right, equal_nan=right.dtype.kind in "fc")
            in_place = getattr(columns[0], f"{name}_", None)
            is_kept = in_place is not None and wanted.dtype is columns[0].dtype
            if is_kept:
                in_place(*columns[1:], **({"max": 3} if name == "clamp" else {}))
                made = columns[0].numpy()
                assert np.array_equal(made, right, equal_nan=right.dtype.kind in "fc"), (dtype, step)
            columns = [tt.stack([x] * step, 1)[:, step // 2] for x in operands]
            out = tt.zeros((37, out_step), dtype=wanted.dtype)[:, out_step // 2]
            try:
                call(name, columns, out=out)
            except TypeError:
                continue
            assert np.array_equal(out.numpy(), right, equal_nan=right.dtype.kind in "fc"), (
                dtype,
                step,
                out_step,
            )
    assert tried


def test_one_unit_of_an_lstm() -> None:
    wide = [tt.linspace(-2, 2, 40).reshape(10, 4), tt.linspace(-1, 3, 40).reshape(10, 4)]
    state = tt.linspace(-1, 1, 10).reshape(10, 1)
    weights = [tt.eye(4)[:, :1] + 0.5, tt.ones(4, 1)]
    x, h = wide[0][:, :1].contiguous(), wide[1][:, :1].contiguous()
    made = tt.lstm_cell(x, (h, state), *weights)
    right = tt.lstm_cell(x.double(), (h.double(), state.double()), *[w.double() for w in weights])
    for got, wanted in zip(made, right, strict=True):
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), 1e-5, 1e-6)
