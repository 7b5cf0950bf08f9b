"""Fused kernels are bitwise identical to eager at the edges of blocks, for every layout, dtype and special
number.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import triten as tt
from triten.compiler.host import pointwise
from triten.tests.compiler.beside_eager import agree, drawn, same

F = tt.nn.functional


def chain(x: tt.Tensor, y: tt.Tensor) -> tuple[tt.Tensor, tt.Tensor]:
    """Compute six steps with two results, one of which later steps read."""
    total = (x + y) * 2 - 0.5
    return total, tt.relu(total).exp() / (y.abs() + 1)


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use blocks of 64 floats, shared among threads from 256 on."""
    monkeypatch.setattr(pointwise, "BLOCK_BYTES", 256)
    monkeypatch.setattr(pointwise, "WHOLE_UP_TO", 4)
    monkeypatch.setattr(pointwise, "SHARED_FROM", 256)


@pytest.mark.parametrize("size", [2, 4, 5, 63, 64, 65, 127, 128, 129, 1000])
@pytest.mark.usefixtures("small_blocks")
def test_edges_of_small_blocks(size: int) -> None:
    agree(chain, lambda: (drawn(size, seed=1), drawn(size, seed=2)), calls=1)


@pytest.mark.parametrize("offset", [-1, 0, 1])
@pytest.mark.parametrize("edge", ["whole", "block", "two blocks", "shared"])
def test_edges_of_the_blocks_that_programs_have(edge: str, offset: int) -> None:
    block = pointwise.BLOCK_BYTES // 4
    size = {
        "whole": pointwise.WHOLE_UP_TO,
        "block": 4 * block,
        "two blocks": 5 * block,
        "shared": pointwise.SHARED_FROM // 6,
    }[edge] + offset
    x, y = tt.randn(size), tt.randn(size)
    same(tt.compile(chain, fullgraph=True)(x, y), chain(x, y))


LAYOUTS: dict[str, Callable[[str], tt.Tensor]] = {
    "contiguous": lambda device: drawn(6, 20, device=device),
    "transposed": lambda device: drawn(20, 6, device=device).t(),
    "sliced": lambda device: drawn(12, 50, device=device)[::2, 7:47:2],
    "a row": lambda device: drawn(20, device=device),
    "a column": lambda device: drawn(6, 1, device=device),
    "expanded": lambda device: drawn(6, 1, device=device).expand(6, 20),
    "one element": lambda device: drawn(1, 1, device=device),
    "a scalar": lambda device: drawn(device=device),
    "an offset": lambda device: drawn(121, device=device)[1:].view(6, 20),
}


@pytest.mark.parametrize(("left", "right"), list(itertools.combinations_with_replacement(LAYOUTS, 2)))
@pytest.mark.usefixtures("small_blocks")
def test_layouts(left: str, right: str) -> None:
    agree(chain, lambda: (LAYOUTS[left]("cpu"), LAYOUTS[right]("cpu") * 2), calls=1)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_on_each_device(layout: str, device: str) -> None:
    agree(chain, lambda: (LAYOUTS["contiguous"](device), LAYOUTS[layout](device)), calls=1)


@pytest.mark.parametrize("size", [(), (1,), (0,), (0, 3), (3, 0, 2), (1, 1, 1)])
def test_few_elements_and_none(size: tuple[int, ...], device: str) -> None:
    agree(chain, lambda: (drawn(*size, device=device, seed=1), drawn(*size, device=device, seed=2)), calls=1)


FLOATS = (tt.float16, tt.bfloat16, tt.float32, tt.float64)
DTYPES = (*FLOATS, tt.int8, tt.uint8, tt.int16, tt.int32, tt.int64, tt.bool)


@pytest.mark.parametrize("other", [tt.float32, tt.int64])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes_are_promoted_and_rounded_at_each_step(dtype: Any, other: Any, device: str) -> None:
    def f(x: tt.Tensor, y: tt.Tensor) -> Any:
        total = x * y + x
        return total, total > 0, tt.where(total > 0, x, y), (total == x) | (x != y), total.to(dtype) * 3

    def made() -> tuple[tt.Tensor, tt.Tensor]:
        return drawn(3, 7, device=device, seed=1).abs().to(dtype), drawn(7, device=device, seed=2).to(other)

    agree(f, made, calls=1)


@pytest.mark.parametrize("sizes", [(), (1,), (1, 1)])
@pytest.mark.parametrize("with_loops", [True, False])
@pytest.mark.usefixtures("small_blocks")
def test_one_number_of_another_dtype_counts_if_it_has_a_dimension(
    with_loops: bool, sizes: tuple[int, ...], device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def f(x: tt.Tensor, y: tt.Tensor) -> Any:
        return x * 2 + y, tt.addcmul(x * 3, y, y)

    def made() -> tuple[tt.Tensor, tt.Tensor]:
        return drawn(200, device=device), drawn(*sizes, device=device, dtype=tt.float64)

    if not with_loops:
        monkeypatch.setattr(pointwise, "is_possible", lambda: False)
    agree(f, made, calls=1)


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_floats(dtype: Any, device: str) -> None:
    def f(x: tt.Tensor) -> Any:
        y = x.sigmoid() * x.tanh() + x.abs().sqrt()
        return (
            y,
            F.gelu(y) + F.silu(x),
            (y.exp().log1p() - x.sin() ** 2).clamp(-1, 1.5),
            x.round() + y.floor(),
        )

    agree(f, lambda: (drawn(37, device=device, dtype=dtype),), calls=1)


def test_functions_of_integers_and_booleans(device: str) -> None:
    def f(x: tt.Tensor, b: tt.Tensor) -> Any:
        y = (x & 12 | 3) ^ (x << 1)
        return y // 3, y % 5, -y, y.float() / 7, ~b & (y > 2), b.logical_xor(y == 0), y.clamp(1, 9) * b

    agree(f, lambda: (tt.arange(-20, 20, device=device), tt.arange(40, device=device) % 3 == 0), calls=1)


SPECIAL = (math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 1e-45, 3.4e38, -3.4e38, 0.5)


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_numbers(dtype: Any, device: str) -> None:
    def f(x: tt.Tensor, y: tt.Tensor) -> Any:
        total = x + y
        return (
            total * -1, tt.relu(total), x.maximum(y) + 0, (x * y).minimum(x), total.clamp(-1, 1), x.sign() * -y,
            x / y, (x * 2).abs().sqrt(), tt.where(x * 1 < y, x, -y), (x + 0 == y) | (x - y).isnan(),
        )  # fmt: skip

    def made() -> tuple[tt.Tensor, tt.Tensor]:
        pairs = list(itertools.product(SPECIAL, SPECIAL))
        return tuple(tt.tensor(column, dtype=dtype, device=device) for column in zip(*pairs, strict=True))

    agree(f, made, calls=1)


def test_negative_zeros_are_kept(device: str) -> None:
    compiled = tt.compile(lambda x: (x * 1.0 * 1.0, x + -0.0 - 0.0, (x + 0.0) * 1.0), fullgraph=True)
    found = compiled(tt.tensor([-0.0, 0.0], device=device))
    assert [np.signbit(x.cpu().numpy()).tolist() for x in found] == [
        [True, False],
        [True, False],
        [False, False],
    ]


def test_no_warning_of_floating_point_errors(recwarn: pytest.WarningsRecorder) -> None:
    for size in (4, pointwise.WHOLE_UP_TO + 1):
        tt.compile(lambda x: (x / 0).log() * 1e38 * 1e38, fullgraph=True)(drawn(4).repeat(size // 4 + 1))
    assert not recwarn.list


@pytest.mark.usefixtures("small_blocks")
def test_the_number_of_threads_changes_nothing(threads: int) -> None:
    x, y = drawn(50, 40, seed=1), drawn(40, 50, seed=2).t()
    compiled = tt.compile(lambda x, y: (*chain(x, y), x.sum() * 2), fullgraph=True)
    same(compiled(x, y), (*chain(x, y), x.sum() * 2))


@pytest.mark.usefixtures("small_blocks")
def test_steps_may_read_what_was_made_long_before() -> None:
    def f(x: tt.Tensor) -> tt.Tensor:
        early, late = x + 1, x * 3
        other = early.sin().abs()
        other = (other * 2 + late).exp() - early
        return other * early + late / 7

    agree(f, lambda: (drawn(300),))


@pytest.mark.usefixtures("small_blocks")
def test_what_is_written_to_may_be_read_before() -> None:
    def f(x: tt.Tensor, y: tt.Tensor) -> tt.Tensor:
        before = x * 2 + y
        x.copy_((before - 1).exp().clamp(max=4))
        return before + x

    agree(f, lambda: (drawn(300, seed=1), drawn(300, seed=2)))


def test_results_of_one_call_are_not_those_of_the_next() -> None:
    compiled = tt.compile(chain, fullgraph=True)
    x, y = drawn(9, seed=1), drawn(9, seed=2)
    first = compiled(x, y)
    kept = [t.clone() for t in first]
    second = compiled(y, x)
    same(list(first), kept)
    assert not {t.data_ptr() for t in first} & {t.data_ptr() for t in second}
