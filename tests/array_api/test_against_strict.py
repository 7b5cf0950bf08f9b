"""Every function against array-api-strict, on drawn arguments: dtypes, shapes and values, signs of zeros too."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
import triten.array_api as xp
from triten.dispatch.codegen.array_api import load_rows
from triten.tests.array_api.draws import Draw, DType

strict = pytest.importorskip("array_api_strict")

ROWS = {row.name: row for row in load_rows()}
DRAWS = {"cpu": 8, "cuda": 2}
INFINITE_FLOORS = "floor_divide"
"""NumPy gives Python's NaN and -1 for infinities, which the standard lets a library do; ours are tested elsewhere."""

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def promotes(a: str, b: str) -> bool:
    try:
        strict.result_type(getattr(strict, a), getattr(strict, b))
    except TypeError:
        return False
    return True


def elementwise(name: str) -> Callable[[Draw], Arguments]:
    row = ROWS[name]

    def draw(d: Draw) -> Arguments:
        small = name in ("pow", "bitwise_left_shift", "bitwise_right_shift")
        finite = name == INFINITE_FLOORS
        if row.operands == 1:
            return (d.array(d.dtype(row.dtypes), d.shape()),), {}
        a, b = d.dtypes(row.dtypes)
        shapes = d.shapes()
        first, second = d.array(a, shapes[0], finite, small), d.array(b, shapes[1], finite, small)
        if name in ("floor_divide", "remainder") and np.dtype(b).kind in "iu":
            second = np.where(second == 0, np.ones((), b), second)
        if name == "nextafter":
            second = second.astype(a)
        elif d.integer(0, 4) == 0:
            number = abs(d.number(a)) if small and not a.startswith("complex") else d.number(a)
            return (first, number), {}
        return (first, second), {}

    return draw


def any_array(d: Draw, kind: str = "all", ranks: tuple[int, int] = (0, 3), least: int = 0) -> Any:
    return d.array(d.dtype(kind), d.shape(least, ranks))


def reduction(kind: str, least: int = 0, finite: bool = False, **more: Any) -> Callable[[Draw], Arguments]:
    def draw(d: Draw) -> Arguments:
        x = d.array(d.dtype(kind), d.shape(least), finite, small=True)
        return (x,), {"axis": d.axes(x.ndim), "keepdims": d.flag(), **more}

    return draw


def along(
    kind: str, *, ranks: tuple[int, int] = (1, 3), least: int = 0, **more: Any
) -> Callable[[Draw], Arguments]:
    def draw(d: Draw) -> Arguments:
        x = d.array(d.dtype(kind), d.shape(least, ranks), small=True)
        options = {name: d.flag() if value is bool else value for name, value in more.items()}
        return (x,), {"axis": d.axis(x.ndim), **options}

    return draw


def two_of_a_shape(d: Draw) -> list[Any]:
    a, b = d.dtypes("all")
    shape = d.shape(ranks=(1, 3))
    return [d.array(a, shape), d.array(b, shape)]


def matrices(d: Draw, kind: str = "floating-point", square: bool = True) -> Any:
    """Matrices that are well conditioned, or of any sizes if not `square`."""
    batch, rows = d.shape(ranks=(0, 1)), d.integer(1, 4)
    x = d.array(d.dtype(kind), (*batch, rows, rows if square else d.integer(1, 4)), finite=True)
    return x + 30 * np.eye(rows, dtype=x.dtype) if square else x


def hermitian(d: Draw) -> Any:
    x = matrices(d)
    return x + np.conj(np.swapaxes(x, -1, -2))


def small_pair(d: Draw, first: tuple[int, ...], second: tuple[int, ...]) -> tuple[Any, Any]:
    a, b = d.dtypes("numeric")
    return d.array(a, first, finite=True, small=True), d.array(b, second, finite=True, small=True)


def take(d: Draw) -> Arguments:
    x = any_array(d, ranks=(1, 3), least=1)
    axis = d.axis(x.ndim)
    return (x, d.rng.integers(-x.shape[axis], x.shape[axis], 3)), {"axis": axis}


def take_along_axis(d: Draw) -> Arguments:
    x = any_array(d, ranks=(1, 3), least=1)
    axis = d.axis(x.ndim)
    shape = list(x.shape)
    shape[axis] = 2
    return (x, d.rng.integers(0, x.shape[axis], shape)), {"axis": axis}


def where(d: Draw) -> Arguments:
    a, b = d.dtypes("all")
    shape = d.shape()
    second = d.number(a) if d.flag() else d.array(b, shape)
    return (d.array("bool", shape), d.array(a, shape), second), {}


def searchsorted(d: Draw) -> Arguments:
    dtype = d.dtype("real numeric")
    x = np.sort(d.array(dtype, (d.integer(0, 6),), finite=True))
    sought = d.number(dtype) if d.integer(0, 3) == 0 else d.array(dtype, d.shape(), finite=True)
    return (x, sought), {"side": d.choice(("left", "right"))}


def clip(d: Draw) -> Arguments:
    dtype = d.dtype("real numeric")
    shape = d.shape()
    low, high = sorted((d.array(dtype, (), finite=True), d.array(dtype, (), finite=True)))
    return (d.array(dtype, shape), d.choice((low, None)), d.choice((np.asarray(high), None))), {}


def reshape(d: Draw) -> Arguments:
    x = any_array(d)
    return (x, x.shape[::-1]), {"copy": d.choice((None, True))}


def roll(d: Draw) -> Arguments:
    x = any_array(d)
    axes = d.axes(x.ndim)
    shift = (
        tuple(d.integer(-5, 5) for _ in axes) if isinstance(axes, tuple) and d.flag() else d.integer(-5, 5)
    )
    return (x, shift), {"axis": axes}


def repeat(d: Draw) -> Arguments:
    x = any_array(d, ranks=(1, 3))
    axis = d.axis(x.ndim)
    return (x, d.choice((2, 0, d.rng.integers(0, 4, x.shape[axis])))), {"axis": axis}


def squeeze(d: Draw) -> Arguments:
    x = any_array(d, ranks=(1, 3))[:, None]
    return (x, d.choice((1, (1,), (1 - x.ndim,)))), {}


def arange(d: Draw) -> Arguments:
    start, stop = d.integer(-9, 9), d.integer(-9, 9)
    if d.flag():
        return (start, stop, d.choice((1, -2, 3))), {}
    return (start / 3, stop / 3, 0.75), {"dtype": DType("float64")}


def linspace(d: Draw) -> Arguments:
    return (d.integer(-9, 9), d.integer(-9, 9) / 7, d.integer(0, 6)), {
        "endpoint": d.flag(),
        "dtype": DType("float64"),
    }


def transform(kind: str, **more: Any) -> Callable[[Draw], Arguments]:
    def draw(d: Draw) -> Arguments:
        x = d.array(d.dtype(kind), d.shape(1, (1, 3)), finite=True)
        norm = {"norm": d.choice(("backward", "ortho", "forward"))}
        return (x,), {**norm, **{k: v(d, x) if callable(v) else v for k, v in more.items()}}

    return draw


def of_an_axis(d: Draw, x: Any) -> int:
    return d.axis(x.ndim)


FUNCTIONS: dict[str, Callable[[Draw], Arguments]] = {
    **{name: elementwise(name) for name in ROWS},
    **dict.fromkeys(("all", "any", "count_nonzero"), reduction("all")),
    **dict.fromkeys(("sum", "prod"), reduction("numeric", finite=True)),
    **dict.fromkeys(("max", "min"), reduction("real numeric", least=1)),
    "mean": reduction("floating-point", least=1, finite=True),
    **{name: lambda d: reduction("real floating-point", 2, True)(d) for name in ("std", "var")},
    **dict.fromkeys(("argmax", "argmin"), along("real numeric", least=1, keepdims=bool)),
    **dict.fromkeys(("sort", "argsort"), along("real numeric", descending=bool)),
    **dict.fromkeys(("cumulative_sum", "cumulative_prod"), along("integer", include_initial=bool)),
    "diff": along("real numeric", n=2),
    "flip": lambda d: ((x := any_array(d),), {"axis": d.axes(x.ndim)}),
    "unstack": along("all"),
    "nonzero": lambda d: ((any_array(d, ranks=(1, 3)),), {}),
    **dict.fromkeys(
        ("unique_all", "unique_counts", "unique_inverse", "unique_values"),
        lambda d: ((any_array(d, "real numeric"),), {}),
    ),
    # array-api-strict leaves `invert` aside.
    "isin": lambda d: (
        (d.array(t := d.dtype("integer"), d.shape(least=1), small=True), d.array(t, (3,), small=True)),
        {},
    ),
    "take": take,
    "take_along_axis": take_along_axis,
    "where": where,
    "searchsorted": searchsorted,
    "clip": clip,
    "reshape": reshape,
    "roll": roll,
    "repeat": repeat,
    "squeeze": squeeze,
    "tile": lambda d: ((any_array(d), d.shape(ranks=(0, 4))), {}),
    "concat": lambda d: ((two_of_a_shape(d),), {"axis": d.choice((0, None))}),
    "stack": lambda d: ((parts := two_of_a_shape(d),), {"axis": d.axis(parts[0].ndim + 1)}),
    "expand_dims": lambda d: ((x := any_array(d), d.axis(x.ndim + 1)), {}),
    "moveaxis": lambda d: ((x := any_array(d, ranks=(1, 3)), d.axis(x.ndim), d.axis(x.ndim)), {}),
    "permute_dims": lambda d: ((x := any_array(d), tuple(map(int, d.rng.permutation(x.ndim)))), {}),
    "matrix_transpose": lambda d: ((any_array(d, ranks=(2, 3)),), {}),
    "broadcast_to": lambda d: ((x := any_array(d), (2, *x.shape)), {}),
    "broadcast_arrays": lambda d: ([d.array("int8", s) for s in d.shapes()], {}),
    "astype": lambda d: ((d.array(d.dtype("integer"), d.shape(), small=True), DType(d.dtype("all"))), {}),
    **dict.fromkeys(("tril", "triu"), lambda d: ((any_array(d, ranks=(2, 3)),), {"k": d.integer(-3, 4)})),
    **dict.fromkeys(("zeros_like", "ones_like"), lambda d: ((any_array(d),), {})),
    "full_like": lambda d: ((x := any_array(d), d.number(x.dtype.name)), {}),
    "full": lambda d: ((d.shape(), d.number(t := d.dtype("all"))), {"dtype": DType(t)}),
    **dict.fromkeys(("zeros", "ones"), lambda d: ((d.shape(),), {"dtype": DType(d.dtype("all"))})),
    "arange": arange,
    "linspace": linspace,
    "eye": lambda d: (
        (d.integer(0, 4), d.integer(0, 4)),
        {"k": d.integer(-4, 5), "dtype": DType(d.dtype("all"))},
    ),
    "meshgrid": lambda d: (
        [d.array("int64", (d.integer(0, 3),)) for _ in range(3)],
        {"indexing": d.choice(("xy", "ij"))},
    ),
    "matmul": lambda d: (
        small_pair(d, *d.choice((((2, 3), (3, 2)), ((3,), (2, 3, 2)), ((2, 1, 0), (0, 2))))),
        {},
    ),
    "tensordot": lambda d: (
        small_pair(d, (2, 3, 4), (3, 4, 2)),
        {"axes": d.choice((2, ((1, 2), (0, 1)), ((0,), (2,))))},
    ),
    "vecdot": lambda d: (small_pair(d, (2, 3), d.choice(((3,), (1, 3)))), {}),
}
LINALG: dict[str, Callable[[Draw], Arguments]] = {
    "outer": lambda d: (small_pair(d, (2,), (3,)), {}),
    "cross": lambda d: (small_pair(d, (2, 3), d.choice(((3,), (2, 3)))), {}),
    "trace": lambda d: ((any_array(d, "numeric", (2, 3)),), {"offset": d.integer(-3, 3)}),
    "diagonal": lambda d: ((any_array(d, "all", (2, 3)),), {"offset": d.integer(-3, 3)}),
    **dict.fromkeys(("det", "inv", "slogdet"), lambda d: ((matrices(d),), {})),
    "solve": lambda d: ((x := matrices(d), d.array(x.dtype.name, (x.shape[-1],), finite=True)), {}),
    "matrix_power": lambda d: ((matrices(d), d.integer(-1, 4)), {}),
    "cholesky": lambda d: ((hermitian(d),), {"upper": d.flag()}),
    "eigvalsh": lambda d: ((hermitian(d),), {}),
    **dict.fromkeys(("svdvals", "matrix_rank", "pinv"), lambda d: ((matrices(d, square=False),), {})),
    "matrix_norm": lambda d: (
        (matrices(d, square=False),),
        {"ord": d.choice(("fro", "nuc", 1, -1, 2, -2, float("inf"))), "keepdims": d.flag()},
    ),
    "vector_norm": lambda d: (
        (x := d.array(d.dtype("floating-point"), d.shape(1), finite=True),),
        {"axis": d.axes(x.ndim), "ord": d.choice((1, 2, 0, 3.5, float("inf"), -float("inf")))},
    ),
}
FFT: dict[str, Callable[[Draw], Arguments]] = {
    **dict.fromkeys(
        ("fft", "ifft", "irfft", "hfft"), transform("complex floating-point", n=4, axis=of_an_axis)
    ),
    **dict.fromkeys(("rfft", "ihfft"), transform("real floating-point", n=5, axis=of_an_axis)),
    **dict.fromkeys(
        ("fftn", "ifftn"), transform("complex floating-point", axes=lambda d, x: (d.axis(x.ndim),))
    ),
    "rfftn": transform("real floating-point"),
    "irfftn": transform("complex floating-point", s=(4,), axes=(-1,)),
    **dict.fromkeys(("fftshift", "ifftshift"), lambda d: ((any_array(d, "floating-point", (1, 3)),), {})),
    **dict.fromkeys(
        ("fftfreq", "rfftfreq"), lambda d: ((d.integer(1, 6),), {"d": 0.5, "dtype": DType("float64")})
    ),
}
CASES = [
    *(("", name, draw) for name, draw in FUNCTIONS.items()),
    *(("linalg", name, draw) for name, draw in LINALG.items()),
    *(("fft", name, draw) for name, draw in FFT.items()),
]
CREATING = {"arange", "linspace", "eye", "full", "zeros", "ones", "fftfreq", "rfftfreq"}
TOLERANCE = {"float32": 1e-4, "complex64": 1e-4, "float64": 1e-11, "complex128": 1e-11}


def translated(value: Any, namespace: Any, array: Callable[[Any], Any]) -> Any:
    """Convert an argument for a namespace."""
    if isinstance(value, DType):
        return getattr(namespace, value.name)
    if isinstance(value, np.ndarray):
        return array(value)
    if isinstance(value, list):
        return [translated(each, namespace, array) for each in value]
    return value


def check(ours: Any, theirs: Any, device: str, signs: bool) -> None:
    if isinstance(theirs, tuple | list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            check(one, other, device, signs)
        return
    expected = theirs._array
    assert isinstance(ours, tt.Tensor) and ours.device.type == device
    assert ours.dtype.name == expected.dtype.name and tuple(ours.shape) == expected.shape
    found = ours.resolve_conj().cpu().numpy()
    tolerance = TOLERANCE.get(expected.dtype.name)
    if tolerance is None:
        np.testing.assert_array_equal(found, expected)
        return
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance / 10)
    if signs and expected.dtype.kind == "f":
        zeros = expected == 0
        np.testing.assert_array_equal(np.signbit(found[zeros]), np.signbit(expected[zeros]))


@pytest.mark.parametrize(("folder", "name", "draw"), CASES, ids=lambda v: v if isinstance(v, str) else "")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_function(folder: str, name: str, draw: Any, device: str, rng: np.random.Generator) -> None:
    theirs = getattr(getattr(strict, folder) if folder else strict, name)
    ours = getattr(getattr(xp, folder) if folder else xp, name)
    more = {"device": device} if name in CREATING else {}
    compared = 0
    for _ in range(DRAWS[device]):
        args, options = draw(Draw(rng, promotes))
        try:
            expected = theirs(
                *(translated(a, strict, lambda v: strict.asarray(v.copy())) for a in args),
                **{k: translated(v, strict, strict.asarray) for k, v in options.items()},
            )
        except (TypeError, ValueError, OverflowError):
            continue  # outside of what the standard defines

        def array(value: Any) -> Any:
            return xp.asarray(value.copy(), device=device)

        found = ours(
            *(translated(a, xp, array) for a in args),
            **{k: translated(v, xp, array) for k, v in options.items()},
            **more,
        )
        check(found, expected, device, name in ROWS)
        compared += 1
    assert compared
