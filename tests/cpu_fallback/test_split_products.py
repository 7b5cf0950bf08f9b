"""Products in parts: all of the result, its values, and the same bits whatever the number of threads."""

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

import triten as tt
from triten.cpu_fallback import split_products
from triten.cpu_fallback.split_products import halves, parts_of, splits
from triten.runtime.tensor_spec import TensorSpec


def spec(*sizes: int) -> TensorSpec:
    return tt.empty(*sizes)._spec


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Products of a few thousand multiplications are split."""
    for name, value in {
        "SPLIT_WORK": 1 << 12,
        "PART_WORK": 1 << 10,
        "NARROWEST": 4,
        "VECTOR_SPLIT": 64,
    }.items():
        monkeypatch.setattr(split_products, name, value)
    before = tt.get_num_threads()
    yield
    tt.set_num_threads(before)


@given(some.integers(1, 300), some.integers(1, 300), some.integers(1, 32))
def test_parts_cover_a_matrix_once(rows: int, columns: int, count: int) -> None:
    met = np.zeros((rows, columns), int)
    parts = halves(rows, columns, count)
    for part in parts:
        met[part] += 1
    assert (met == 1).all() and len(parts) <= count


@pytest.mark.parametrize(
    "sizes", [(1, 2000, 300, 300), (40, 64, 64, 64), (3, 200, 250, 260), (1, 40, 4096, 4096)]
)
def test_parts_cover_a_batch_once(sizes: tuple[int, ...]) -> None:
    batch, rows, inner, columns = sizes
    met = np.zeros((batch, rows, columns), int)
    for part in parts_of(spec(batch, rows, inner), spec(batch, inner, columns)):
        met[part] += 1
    assert (met == 1).all()


def test_what_is_split_is_large() -> None:
    assert not splits(spec(64, 64), spec(64, 64)) and splits(spec(512, 512), spec(512, 512))
    assert not splits(spec(1, 4096), spec(4096, 4096)) and splits(spec(2048, 2048), spec(2048))


def laid_out(array: np.ndarray, turned: bool) -> tt.Tensor:
    if not turned or array.ndim < 2:
        return tt.from_numpy(array)
    return tt.from_numpy(np.ascontiguousarray(array.swapaxes(-1, -2))).transpose(-1, -2)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c16"])
@pytest.mark.parametrize(
    ("name", "left", "right"),
    [
        ("mm", (67, 53), (53, 71)),
        ("bmm", (5, 33, 20), (5, 20, 31)),
        ("mv", (67, 53), (53,)),
        ("mm", (37, 64), (64, 37)),
    ],
)
def test_every_layout_and_number_of_threads(
    small_parts: None, name: str, left: tuple[int, ...], right: tuple[int, ...], dtype: str
) -> None:
    seed = np.random.SeedSequence().entropy
    rng = np.random.default_rng(seed)
    x, y = (rng.standard_normal(sizes).astype(dtype) for sizes in (left, right))
    expected = x.astype("c16") @ y.astype("c16")
    assert splits(tt.from_numpy(x)._spec, tt.from_numpy(y)._spec)
    tolerance = 1e-4 if dtype == "f4" else 1e-12
    for turned in itertools.product((False, True), repeat=2):
        a, b = laid_out(x, turned[0]), laid_out(y, turned[1])
        made = []
        for threads in (1, 2, 3):
            tt.set_num_threads(threads)
            made.append(getattr(tt, name)(a, b).numpy())
        np.testing.assert_allclose(made[0], expected, atol=tolerance * 10, err_msg=f"seed {seed}")
        assert all(np.array_equal(made[0], other) for other in made[1:]), f"seed {seed}"
        if name != "mm":
            continue
        addend = rng.standard_normal(expected.shape[1]).astype(dtype)
        found = tt.addmm(tt.from_numpy(addend), a, b).numpy()
        np.testing.assert_allclose(found, expected + addend, atol=tolerance * 10, err_msg=f"seed {seed}")
        out = laid_out(np.zeros(expected.shape, dtype), True)
        tt.mm(a, b, out=out)
        np.testing.assert_allclose(out.numpy(), expected, atol=tolerance * 10, err_msg=f"seed {seed}")


def test_an_operand_may_be_written_over(small_parts: None) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((48, 48)).astype(np.float32)
    a = tt.from_numpy(x.copy())
    tt.mm(a, a, out=a)
    np.testing.assert_allclose(a.numpy(), x @ x, rtol=1e-4, atol=1e-4)
    b = tt.from_numpy(x.copy())
    b.addmm_(b, b)
    np.testing.assert_allclose(b.numpy(), x + x @ x, rtol=1e-4, atol=1e-4)
