"""Memory formats against their definitions."""

import itertools
import pickle

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import triten as tt
from triten.runtime import memory_format as mf

shapes = st.lists(st.integers(0, 4), max_size=5).map(tuple)
shapes4 = st.tuples(*[st.integers(1, 4)] * 4)
shapes5 = st.tuples(*[st.integers(1, 3)] * 5)


@st.composite
def geometries(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...]]:
    sizes = draw(shapes)
    kind = draw(st.sampled_from(["any", "permuted", "contiguous"]))
    if kind == "any":
        return sizes, tuple(draw(st.integers(0, 12)) for _ in sizes)
    if kind == "contiguous":
        return sizes, mf.contiguous_strides(sizes)
    order = draw(st.permutations(range(len(sizes))))
    packed = mf.contiguous_strides([sizes[i] for i in order])
    strides = [0] * len(sizes)
    for place, i in enumerate(order):
        strides[i] = packed[place]
    return sizes, tuple(strides)


def addresses(sizes: tuple[int, ...], strides: tuple[int, ...], order: tuple[int, ...]) -> list[int]:
    """Return the addresses of the elements, with the last dimension of `order` fastest."""
    return [
        sum(i * strides[d] for i, d in zip(index, order, strict=True))
        for index in itertools.product(*(range(sizes[d]) for d in order))
    ]


def in_order(sizes: tuple[int, ...], strides: tuple[int, ...], order: tuple[int, ...]) -> bool:
    visited = addresses(sizes, strides, order)
    return visited == list(range(len(visited)))


@given(shapes)
def test_contiguous_strides(sizes: tuple[int, ...]) -> None:
    strides = mf.contiguous_strides(sizes)
    assert in_order(sizes, strides, tuple(range(len(sizes))))
    assert mf.is_contiguous(sizes, strides)
    assert all(s >= 1 for s in strides)


@given(geometries())
def test_is_contiguous(geometry: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    sizes, strides = geometry
    assert mf.is_contiguous(sizes, strides) == in_order(sizes, strides, tuple(range(len(sizes))))


@given(shapes4 | shapes5)
def test_channels_last_strides(sizes: tuple[int, ...]) -> None:
    strides = mf.channels_last_strides(sizes)
    order = (0, *range(2, len(sizes)), 1)
    assert in_order(sizes, strides, order)
    assert mf.is_channels_last(sizes, strides, len(sizes))
    assert mf.is_channels_last_strides(sizes, strides) or sizes[1] == 1 or 1 in sizes


@given(geometries())
def test_is_channels_last(geometry: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    sizes, strides = geometry
    for rank, order in ((4, (0, 2, 3, 1)), (5, (0, 2, 3, 4, 1))):
        # The strides decide for empty tensors, too.
        filled = tuple([max(n, 1) for n in sizes])
        running, is_ordered = 1, len(sizes) == rank
        for d in reversed(order) if is_ordered else ():
            is_ordered = is_ordered and (sizes[d] == 1 or strides[d] == running)
            running *= sizes[d]
        expected = is_ordered if 0 in sizes else len(sizes) == rank and in_order(filled, strides, order)
        assert mf.is_channels_last(sizes, strides, rank) == expected


@given(geometries())
def test_non_overlapping_and_dense(geometry: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    sizes, strides = geometry
    assume(0 not in sizes)
    visited = addresses(sizes, strides, tuple(range(len(sizes))))
    assert mf.is_non_overlapping_and_dense(sizes, strides) == (sorted(visited) == list(range(len(visited))))


@given(geometries())
def test_preserved_strides_are_dense_and_keep_those_that_are(
    geometry: tuple[tuple[int, ...], tuple[int, ...]],
) -> None:
    sizes, strides = geometry
    kept = mf.strides_for(mf.preserve_format, sizes, (sizes, strides))
    if mf.is_non_overlapping_and_dense(sizes, strides):
        assert kept == strides
    if 0 not in sizes:
        assert mf.is_non_overlapping_and_dense(sizes, kept)


@given(geometries())
def test_dense_strides_keep_the_order_of_strides(geometry: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    sizes, strides = geometry
    assume(0 not in sizes and 0 not in strides and len(set(strides)) == len(strides))
    kept = mf.dense_strides_like(sizes, strides)
    wide = [i for i, n in enumerate(sizes) if n > 1]
    assert sorted(wide, key=lambda i: kept[i]) == sorted(wide, key=lambda i: strides[i])


@pytest.mark.parametrize(
    ("sizes", "strides", "expected"),
    [
        ((4, 3), (1, 8), (1, 4)),
        ((2, 3), (0, 1), (3, 1)),
        ((2, 3), (1, 0), (3, 1)),
        ((2, 3, 4), (100, 1, 7), (12, 1, 3)),
        ((1, 1), (5, 5), (1, 1)),
    ],
)
def test_preserved_strides_of_gapped_and_expanded_tensors(
    sizes: tuple[int, ...], strides: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    assert mf.dense_strides_like(sizes, strides) == expected


@pytest.mark.parametrize(
    ("sizes", "strides", "expected"),
    [
        ((1, 3, 1, 1), (3, 1, 3, 3), True),
        ((2, 3, 4, 5), (120, 1, 30, 6), True),
        ((2, 3, 4, 5), (60, 20, 5, 1), False),
        ((2, 1, 4, 5), (20, 20, 5, 1), False),
        ((2, 3, 4, 5), (0, 0, 0, 0), False),
        ((2, 3), (1, 2), False),
        ((0, 3, 4, 5), (60, 1, 15, 3), False),
    ],
)
def test_order_of_strides_decides_channels_last(
    sizes: tuple[int, ...], strides: tuple[int, ...], expected: bool
) -> None:
    assert mf.is_channels_last_strides(sizes, strides) is expected


@pytest.mark.parametrize(("name", "rank"), [("channels_last", 4), ("channels_last_3d", 5)])
def test_formats_of_the_wrong_rank_are_refused(name: str, rank: int) -> None:
    with pytest.raises(RuntimeError, match=f"required rank {rank} tensor to use {name} format"):
        mf.strides_for(getattr(tt, name), (2, 3))
    with pytest.raises(RuntimeError, match=f"required rank {rank}"):
        tt.empty((2, 3), memory_format=getattr(tt, name))


def test_of_tensors() -> None:
    x = tt.ones(2, 3, 4, 5)
    y = x.to(memory_format=tt.channels_last)
    assert y.stride() == (60, 1, 15, 3)
    assert x.to(memory_format=tt.contiguous_format) is x
    assert y.to(memory_format=tt.channels_last) is y
    assert y.clone().stride() == y.stride()
    assert y.clone(memory_format=tt.contiguous_format).stride() == x.stride()
    assert (y + y).stride() == y.relu().stride() == y.stride()
    assert tt.empty_like(y).stride() == y.stride()
    assert tt.empty_like(y, memory_format=tt.contiguous_format).is_contiguous()
    with pytest.raises(RuntimeError, match="preserve memory format is unsupported"):
        y.contiguous(memory_format=tt.preserve_format)
    assert x.contiguous(memory_format=tt.preserve_format) is x


@pytest.mark.parametrize(
    "name", ["contiguous_format", "preserve_format", "channels_last", "channels_last_3d"]
)
def test_names(name: str) -> None:
    fmt = getattr(tt, name)
    assert repr(fmt) == f"triten.{name}"
    assert pickle.loads(pickle.dumps(fmt)) is fmt
