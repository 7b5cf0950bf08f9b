"""Compiled sampling and its gradients have the bits of NumPy's passes, which agree with a float64 reference."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.cpu_fallback.resampling import compiled_sampling
from triten.cpu_fallback.resampling.sampling_loop import Kind, gradient_loop, sample_loop
from triten.dispatch.core.dispatcher import Dispatcher
from triten.runtime.cpu.background import background
from triten.tests.compiled_code import needs_llvm

Array = np.ndarray[Any, Any]
aten = tt.ops.aten
BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, BORDER, REFLECTION = 0, 1, 2
SERVED = [*itertools.product((BILINEAR, NEAREST), (ZEROS, BORDER), (False, True))]
SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, int]]] = {
    "few positions": ((2, 3, 5, 7), (4, 6)),
    "one element": ((1, 2, 1, 1), (9, 5)),
    "blocks and a rest": ((1, 5, 9, 6), (3, 129)),
    "one position": ((3, 17, 9, 4), (1, 1)),
    "shared by few samples": ((2, 20, 13, 11), (33, 31)),
    "shared by many samples": ((19, 3, 6, 8), (30, 25)),
}
MASKS = [(True, True), (True, False), (False, True)]
SPECIAL = [np.nan, np.inf, -np.inf, 1e30, -4e9, 2.0**31, -1, 1, 0, -0.0]


@functools.cache
def loop(name: str, *kind: Any) -> Callable[..., None]:
    """Return a loop, compiled once for all tests."""
    return sample_loop(Kind(*kind)) if name == "sample" else gradient_loop(Kind(*kind))


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], list[str]]:
    """Return a function that makes new plans use loops at once or never, and returns those that are asked for."""

    def choose(by_loop: bool) -> list[str]:
        asked: list[str] = []

        def deferred(name: str, *kind: Any) -> Any:
            asked.append(name)
            return SimpleNamespace(beside=lambda work: loop(name, *kind) if by_loop else None)

        monkeypatch.setattr(compiled_sampling, "_deferred", deferred)
        Dispatcher.singleton().forget_all()
        return asked

    return choose


def operands(shape: str, dtype: str, special: bool = False) -> list[Any]:
    """Return the gradient of the output, the image and the grid."""
    rng = np.random.default_rng(11)
    size, positions = SHAPES[shape]
    grad = rng.standard_normal((*size[:2], *positions)).astype(dtype)
    image = rng.standard_normal(size).astype(dtype)
    grid = rng.uniform(-1.5, 1.5, (size[0], *positions, 2)).astype(dtype)
    if special:
        some = grid.reshape(-1)[:: max(grid.size // 40, 1)]
        some[:] = np.resize(SPECIAL, some.size)
        image.reshape(-1)[:: max(image.size // 7, 1)] = np.nan
        image.reshape(-1)[-1] = np.inf
        grad.reshape(-1)[:: max(grad.size // 9, 1)] = -0.0
        grad.reshape(-1)[-1] = -np.inf
    return [tt.from_numpy(each) for each in (grad, image, grid)]


def results(grad: Any, image: Any, grid: Any, modes: Any) -> list[Array]:
    """Return the samples, and the gradients for each mask."""
    made = [tt.grid_sampler(image, grid, *modes)]
    for mask in MASKS:
        both = aten.grid_sampler_2d_backward(grad, image, grid, *modes, mask)
        assert [each is not None for each in both] == list(mask)
        made += [each for each in both if each is not None]
    assert all(each.is_contiguous() for each in made)
    return [each.numpy() for each in made]


def assert_same_bits(got: Array, want: Array) -> None:
    """Compare two arrays, in which any NaN equals any other."""
    np.testing.assert_array_equal(got, want)
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got[numbers]), np.signbit(want[numbers]))


def tap_at(x: float, n: int, interpolation: int) -> list[tuple[int, float, float]]:
    """Return index, weight and the weight's derivative of each tap of a position that lies inside."""
    if interpolation == NEAREST:
        taps = [(round(x), 1.0, 0.0)]
    else:
        first = math.floor(x)
        taps = [(first, 1 - (x - first), -1.0), (first + 1, x - first, 1.0)]
    return [each for each in taps if 0 <= each[0] < n]


def reference(grad: Array, image: Array, grid: Array, modes: tuple[int, int, bool]) -> list[Array]:
    """Sample position by position in float64; return the samples and both gradients."""
    interpolation, padding, align_corners = modes
    n, c, *size = image.shape
    out = np.zeros((n, c, *grid.shape[1:3]))
    of_image, of_grid = np.zeros(image.shape), np.zeros(grid.shape)
    for i, h, w in np.ndindex(*grid.shape[:3]):
        taps, speeds = [], []
        for m, coordinate in zip(size, grid[i, h, w, ::-1].astype(np.float64), strict=True):
            speed = (m - 1) / 2 if align_corners else m / 2
            x = (coordinate + 1) * speed - (0 if align_corners else 0.5)
            if padding == BORDER:
                speed *= 0 < x < m - 1
                x = min(max(x, 0), m - 1)
            taps.append(tap_at(x, m, interpolation))
            speeds.append(speed)
        for (y, of_y, slope_y), (x, of_x, slope_x) in itertools.product(*taps):
            elements, g = image[i, :, y, x].astype(np.float64), grad[i, :, h, w].astype(np.float64)
            out[i, :, h, w] += elements * of_y * of_x
            of_image[i, :, y, x] += g * of_y * of_x
            of_grid[i, h, w] += (elements * g).sum() * np.array(
                [of_y * slope_x * speeds[1], slope_y * of_x * speeds[0]]
            )
    return [out, of_image, of_grid]


@needs_llvm
@pytest.mark.parametrize(
    ("modes", "dtype"),
    [*((modes, "float32") for modes in SERVED), (SERVED[0], "float64"), (SERVED[-1], "float64")],
    ids=str,
)
def test_loops_have_the_bits_of_numpy(
    modes: Any, dtype: str, use: Callable[[bool], list[str]], threads: int
) -> None:
    # A nearest element's position does not depend on the grid.
    loops = ["sample", *["gradient"] * (3 if modes[0] == BILINEAR else 2)]
    cases = [operands(shape, dtype, special) for shape in SHAPES for special in (False, True)]
    made = []
    for by_loop in (False, True):
        asked = use(by_loop)
        made.append([results(*arrays, modes) for arrays in cases])
        assert asked == loops * len(SHAPES)
    for by_numpy, compiled in zip(*made, strict=True):
        for got, want in zip(compiled, by_numpy, strict=True):
            assert_same_bits(got, want)
        for whole, alone in ((1, 3), (2, 4)):
            assert_same_bits(compiled[whole], compiled[alone])


@pytest.mark.parametrize("modes", SERVED, ids=str)
def test_results_are_those_of_a_reference(modes: Any, use: Callable[[bool], list[str]]) -> None:
    use(False)
    for shape in ("few positions", "one element", "blocks and a rest"):
        arrays = operands(shape, "float64")
        made = results(*arrays, modes)
        for got, want in zip(made[:3], reference(*[each.numpy() for each in arrays], modes), strict=True):
            np.testing.assert_allclose(got, want, 1e-9, 1e-10)


@needs_llvm
def test_coordinates_at_edges_and_outside(use: Callable[[bool], list[str]]) -> None:
    use(True)
    image = tt.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    nan, inf = math.nan, math.inf
    grid = tt.tensor([[[[-1.0, -1.0], [1.0, 1.0], [nan, 0.0], [inf, 1.0], [-inf, -1.0], [-2.0, -1.0]]]])
    assert tt.grid_sampler(image, grid, 0, ZEROS, True).tolist() == [[[[1, 4, 0, 0, 0, 0.5]]]]
    assert tt.grid_sampler(image, grid, 0, BORDER, True).tolist() == [[[[1, 4, 2, 4, 1, 1]]]]
    ones = tt.ones(1, 1, 1, 6)
    of_input, of_grid = aten.grid_sampler_2d_backward(ones, image, grid, 0, ZEROS, True, [True, True])
    assert of_input.tolist() == [[[[1.5, 0], [0, 1]]]]
    assert of_grid.tolist() == [[[[0.5, 1], [-2, -2], [0, 0], [0, 0], [0, 0], [0.5, 0.5]]]]
    of_input, of_grid = aten.grid_sampler_2d_backward(ones, image, grid, 0, BORDER, True, [True, True])
    assert of_input.tolist() == [[[[3.5, 0], [0.5, 2]]]]
    assert of_grid.tolist() == [[[[0, 0], [0, 0], [0, 1], [0, 0], [0, 0], [0, 0]]]]


@needs_llvm
@pytest.mark.parametrize("by_loop", [False, True])
def test_layouts_do_not_change_results(by_loop: bool, use: Callable[[bool], list[str]]) -> None:
    modes = (BILINEAR, ZEROS, False)
    grad, image, grid = operands("shared by few samples", "float32")
    use(by_loop)
    want = results(grad, image, grid, modes)
    wide = tt.zeros(2, 20, 15, 30)
    wide[:, :, 1:14, 3:25:2] = image
    layouts = {
        "channels-last": [each.contiguous(memory_format=tt.channels_last) for each in (grad, image)] + [grid],
        "slices": [grad, wide[:, :, 1:14, 3:25:2], tt.stack([grid, grid])[1]],
        "transposed": [
            grad.mT.contiguous().mT,
            image.mT.contiguous().mT,
            grid.transpose(1, 2).contiguous().transpose(1, 2),
        ],
    }
    for arrays in layouts.values():
        for got, expected in zip(results(*arrays, modes), want, strict=True):
            assert_same_bits(got, expected)
    # Operands that are expanded, and those that share memory.
    one = (
        grad[:, :1, :1, :1].expand(grad.shape),
        image[:1, :1].expand(image.shape),
        grid[:1].expand(grid.shape),
    )
    copies = [each.clone(memory_format=tt.contiguous_format) for each in one]
    for got, expected in zip(results(*one, modes), results(*copies, modes), strict=True):
        assert_same_bits(got, expected)
    whole = image[:, :, :11, :11].contiguous()
    same = aten.grid_sampler_2d_backward(
        whole, whole, whole[:, :1].reshape(2, 11, 11, 1).expand(2, 11, 11, 2), *modes, MASKS[0]
    )
    apart = aten.grid_sampler_2d_backward(
        whole.clone(), whole, whole[:, :1].reshape(2, 11, 11, 1).repeat(1, 1, 1, 2), *modes, MASKS[0]
    )
    assert tt.equal(same[0], apart[0]) and tt.equal(same[1], apart[1])


@needs_llvm
def test_an_output_that_is_given(use: Callable[[bool], list[str]]) -> None:
    _, image, grid = operands("shared by many samples", "float32")
    modes = (BILINEAR, BORDER, True)
    use(True)
    want = tt.grid_sampler(image, grid, *modes)
    for out in (tt.empty(want.shape), tt.empty(want.shape).contiguous(memory_format=tt.channels_last)):
        assert tt.equal(aten.grid_sampler_2d.out(image, grid, *modes, out=out), want)
    square = tt.randn(1, 2, 40, 40)
    places = tt.rand(1, 40, 40, 2) * 2 - 1
    want = tt.grid_sampler(square, places, *modes)
    assert tt.equal(aten.grid_sampler_2d.out(square, places, *modes, out=square), want)


@needs_llvm
def test_gradients_are_those_of_finite_differences(use: Callable[[bool], list[str]]) -> None:
    modes = (BILINEAR, ZEROS, False)
    use(True)
    _, image, grid = operands("few positions", "float64")
    assert tt.autograd.gradcheck(
        lambda x, g: tt.grid_sampler(x, g, *modes), (image.requires_grad_(), grid.requires_grad_())
    )


@pytest.mark.parametrize(
    ("image", "grid", "modes"),
    [
        (tt.ones(0, 2, 3, 3), tt.ones(0, 2, 2, 2), (BILINEAR, ZEROS, False)),
        (tt.ones(2, 0, 3, 3), tt.ones(2, 2, 2, 2), (BILINEAR, ZEROS, False)),
        (tt.ones(2, 2, 3, 3), tt.ones(2, 0, 2, 2), (NEAREST, BORDER, True)),
    ],
)
def test_gradients_of_empty_results_are_zero(
    image: Any, grid: Any, modes: Any, use: Callable[[bool], list[str]]
) -> None:
    asked = use(True)
    grad = tt.ones(*image.shape[:2], *grid.shape[1:3])
    assert tt.grid_sampler(image, grid, *modes).shape == grad.shape
    of_input, of_grid = aten.grid_sampler_2d_backward(grad, image, grid, *modes, [True, True])
    assert of_input.shape == image.shape and of_grid.shape == grid.shape
    assert not of_input.any() and not of_grid.any() and not asked


@pytest.mark.parametrize(
    ("dtype", "modes"),
    [
        (tt.float32, (BICUBIC, ZEROS, False)),
        (tt.float32, (BILINEAR, REFLECTION, False)),
        (tt.float16, (BILINEAR, ZEROS, False)),
    ],
)
def test_other_calls_are_numpys(dtype: Any, modes: Any, use: Callable[[bool], list[str]]) -> None:
    asked = use(True)
    arrays = operands("few positions", "float32")
    made = results(*[each.to(dtype) for each in arrays], modes)
    wide = results(*[each.to(dtype).double() for each in arrays], modes)
    assert not asked or dtype is tt.float16
    for got, want in zip(made, wide, strict=True):
        np.testing.assert_allclose(got, want, 4e-3 if dtype is tt.float16 else 1e-4, 1e-2)


def test_one_kernel_computes_both_gradients() -> None:
    grad, image, grid = operands("few positions", "float32")
    text = str(
        tt.explain(lambda: aten.grid_sampler_2d_backward(grad, image, grid, 0, 0, False, [True, True]))
    )
    assert "both gradients at once" in text


def test_the_composite_has_the_kernels_bits() -> None:
    for shape, dtype in (("few positions", "float32"), ("shared by few samples", "float64")):
        arrays = operands(shape, dtype, special=True)
        for modes in ((BILINEAR, ZEROS, False), (BILINEAR, REFLECTION, True), (BICUBIC, BORDER, True)):
            want = aten.grid_sampler_2d_backward(*arrays, *modes, [True, True])
            # A call that a profiler observes runs the composite.
            with tt.profiler.profile() as seen:
                got = aten.grid_sampler_2d_backward(*arrays, *modes, [True, True])
            assert "aten::_grid_sampler_taps" in {event.name for event in seen.events()}
            for a, b in zip(got, want, strict=True):
                assert_same_bits(a.numpy(), b.numpy())


@needs_llvm
def test_loops_are_compiled_after_enough_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = operands("shared by few samples", "float32")
    modes = (BILINEAR, ZEROS, False)
    Dispatcher.singleton().forget_all()
    loops = [compiled_sampling._deferred(name, "float32", *modes) for name in ("sample", "gradient")]
    for deferred in loops:
        monkeypatch.setattr(deferred, "loop", None)
        monkeypatch.setattr(deferred, "done", deferred.compile_threshold - 1)
    first = results(*arrays, modes)
    background.wait()
    assert all(deferred.loop is not None for deferred in loops)
    for got, want in zip(results(*arrays, modes), first, strict=True):
        assert_same_bits(got, want)
