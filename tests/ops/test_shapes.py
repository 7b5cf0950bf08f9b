"""Splits, ranks, grids, diagonals and shuffles, against NumPy's or written down."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import triten as tt


def test_splits(device: str) -> None:
    array = np.arange(24).reshape(2, 4, 3)
    x = tt.from_numpy(array).to(device)
    for name, argument in [("hsplit", 2), ("hsplit", (1, 3)), ("vsplit", 2), ("dsplit", (1,)), ("dsplit", 3)]:
        parts = getattr(tt, name)(x, argument)
        for part, expected in zip(parts, getattr(np, name)(array, argument), strict=True):
            assert part.tolist() == expected.tolist()
            assert part._is_view()
    assert [p.tolist() for p in tt.arange(4).hsplit(2)] == [[0, 1], [2, 3]]


def test_splits_refuse() -> None:
    with pytest.raises(RuntimeError, match="at least 1 dimension"):
        tt.tensor(1).hsplit(1)
    with pytest.raises(RuntimeError, match="not divisible by the split_size 3"):
        tt.ones(4, 4).vsplit(3)
    with pytest.raises(RuntimeError, match="at least 3 dimensions"):
        tt.ones(4, 4).dsplit(2)


def test_ranks() -> None:
    for name, sizes in [("atleast_1d", (1,)), ("atleast_2d", (1, 1)), ("atleast_3d", (1, 1, 1))]:
        assert getattr(tt, name)(tt.tensor(2.0)).shape == sizes
    assert tt.atleast_3d(tt.ones(2, 3)).shape == (2, 3, 1)
    several = tt.atleast_2d(tt.ones(2), tt.ones(3, 1))
    assert isinstance(several, tuple)
    assert [x.shape for x in several] == [(1, 2), (3, 1)]
    x = tt.ones(2, 2, 2)
    assert tt.atleast_3d(x) is x


@pytest.mark.parametrize("indexing", ["ij", "xy"])
def test_grids(indexing: str, device: str) -> None:
    arrays = [np.arange(2), np.arange(3), np.arange(4)]
    given = [tt.from_numpy(a).to(device) for a in arrays]
    grids = tt.meshgrid(*given, indexing=indexing)
    for grid, expected in zip(grids, np.meshgrid(*arrays, indexing=indexing), strict=True):
        assert grid.tolist() == expected.tolist()
    rows = tt.cartesian_prod(*given[:2])
    assert rows.tolist() == [list(pair) for pair in itertools.product(range(2), range(3))]


def test_grids_refuse() -> None:
    with pytest.raises(RuntimeError, match="non-empty"):
        tt.meshgrid(indexing="ij")
    with pytest.raises(RuntimeError, match='one of "xy" or "ij"'):
        tt.meshgrid(tt.ones(2), indexing="ji")
    with pytest.raises(RuntimeError, match="same dtype"):
        tt.meshgrid(tt.ones(2), tt.arange(2), indexing="ij")
    with pytest.raises(RuntimeError, match="0D or 1D"):
        tt.meshgrid(tt.ones(2, 2), indexing="ij")
    with pytest.warns(UserWarning, match="indexing argument"):
        tt.meshgrid(tt.ones(2))


@pytest.mark.parametrize("r", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("with_replacement", [False, True])
def test_combinations(r: int, with_replacement: bool, device: str) -> None:
    x = tt.tensor([3.0, 5.0, 7.0], device=device)
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    expected = [list(c) for c in choose([3.0, 5.0, 7.0], r)] if r else []
    assert tt.combinations(x, r, with_replacement).tolist() == expected


@pytest.mark.parametrize("size", [0, 2])
def test_combinations_without_rows_belong_to_the_graph(size: int, device: str) -> None:
    x = tt.ones(size, device=device, requires_grad=True)
    rows = tt.combinations(x, 3)
    assert rows.shape == (0, 3)
    rows.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0.0] * size


@pytest.mark.parametrize("offset", [-2, 0, 1])
def test_diagonals(offset: int, device: str) -> None:
    vector, matrix = np.arange(1.0, 4.0), np.arange(12.0).reshape(3, 4)
    v, m = (tt.from_numpy(a).to(device) for a in (vector, matrix))
    assert tt.diag(v, offset).tolist() == np.diag(vector, offset).tolist()
    assert tt.diag(m, offset).tolist() == np.diag(matrix, offset).tolist()
    assert tt.diagflat(m, offset).tolist() == np.diagflat(matrix, offset).tolist()
    embedded = tt.diag_embed(m, offset, 0, 2)
    assert tt.diagonal(embedded, offset, 0, 2).tolist() == m.tolist()
    assert embedded.sum().item() == m.sum().item()


def test_diagonals_refuse() -> None:
    with pytest.raises(RuntimeError, match="Supports 1D or 2D"):
        tt.diag(tt.ones(1, 1, 1))
    with pytest.raises(RuntimeError, match="cannot be identical"):
        tt.diag_embed(tt.ones(2), 0, 1, -1)


def test_blocks(device: str) -> None:
    x = tt.block_diag(tt.ones(2, 1, device=device), tt.tensor([2.0, 3.0], device=device))
    assert x.tolist() == [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 3.0]]
    assert tt.block_diag().shape == (1, 0)
    with pytest.raises(RuntimeError, match="2 or fewer dimensions"):
        tt.block_diag(tt.ones(1, 1, 1))


def test_broadcasting_and_its_reverse() -> None:
    a, b = tt.broadcast_tensors(tt.ones(2, 1), tt.arange(3.0))
    assert a.shape == b.shape == (2, 3)
    assert b.sum_to_size(3).tolist() == [0.0, 2.0, 4.0]
    assert b.sum_to_size(2, 1).tolist() == [[3.0], [3.0]]
    assert b.sum_to_size(()).item() == 6.0
    with pytest.raises(RuntimeError, match="not expandable"):
        b.sum_to_size(2)
    with pytest.raises(RuntimeError, match=r"size of tensor a \(2\) must match the size of tensor b \(3\)"):
        tt.broadcast_tensors(tt.ones(2, 2), tt.arange(3.0))


def test_shuffles(device: str) -> None:
    x = tt.arange(36.0, device=device).view(1, 9, 2, 2)
    up = tt.pixel_shuffle(x, 3)
    assert up.shape == (1, 1, 6, 6)
    assert up[0, 0, 0, :3].tolist() == [0.0, 4.0, 8.0]
    assert tt.pixel_unshuffle(up, 3).tolist() == x.tolist()
    channels = tt.channel_shuffle(tt.arange(6.0, device=device).view(1, 6, 1), 2)
    assert channels.flatten().tolist() == [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    with pytest.raises(RuntimeError, match="divisible by the square"):
        tt.pixel_shuffle(x, 2)
    with pytest.raises(RuntimeError, match="divisible by groups"):
        tt.channel_shuffle(x, 2)


def test_split_takes_the_name_of_pytorchs_function() -> None:
    x = tt.arange(5)
    assert [each.tolist() for each in tt.split(x, split_size_or_sections=3)] == [[0, 1, 2], [3, 4]]
    assert [each.tolist() for each in tt.split(x, split_size_or_sections=[1, 4], dim=0)] == [
        [0],
        [1, 2, 3, 4],
    ]
    with pytest.raises(TypeError, match="split_size_or_sections"):
        tt.split(x, 2, split_size_or_sections=3)
    with pytest.raises(TypeError, match="split_size_or_sections"):
        tt.sum(x, split_size_or_sections=3)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tt.pixel_shuffle(x, 3),
        lambda x: tt.pixel_shuffle(x, 1),
        lambda x: tt.pixel_unshuffle(x, 2),
        lambda x: tt.channel_shuffle(x, 3),
    ],
)
def test_shuffles_keep_channels_last(device: str, function: Callable[[tt.Tensor], tt.Tensor]) -> None:
    x = tt.arange(3 * 18 * 4 * 6).reshape(3, 18, 4, 6).to(device)
    made = function(x.contiguous(memory_format=tt.channels_last))
    assert made.is_contiguous(memory_format=tt.channels_last) and made._base is None
    assert tt.equal(made, function(x)) and function(x).is_contiguous()


@pytest.mark.parametrize(
    ("dim", "strides"),
    [
        (0, (1296, 432, 1, 108, 18)),
        (1, (864, 18, 1, 216, 36)),
        (2, (864, 1, 432, 108, 18)),
        (3, (864, 1, 216, 108, 18)),
        (4, (864, 48, 12, 2, 1)),
    ],
)
def test_a_stack_of_channels_last_tensors_keeps_their_order(dim: int, strides: tuple[int, ...]) -> None:
    x = tt.arange(3 * 18 * 4 * 6).reshape(3, 18, 4, 6)
    last = x.contiguous(memory_format=tt.channels_last)
    made = tt.stack([last, last + 1], dim)
    assert made.stride() == strides and made._base is None
    assert tt.equal(made, tt.stack([x, x + 1], dim))
