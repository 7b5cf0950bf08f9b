"""Operators refuse invalid integers, in tensors and arguments, that determine where memory is read or
written.

The table is that of `docs/numerics.md`, "Integers that reach memory". A row is an operator, one of its
integers, and the refused values. On a GPU the kernels raise a flag. The interpreter reads host memory, so an
unchecked index would crash the process.
"""

from collections.abc import Callable
from typing import NamedTuple

import pytest

import triten as tt

F = tt.nn.functional
aten = tt.ops.aten

FAR = (2**31, -(2**63), 2**62)
FAR_OF_INT32 = (10**6, 2**31 - 1, -(2**31))


class Row(NamedTuple):
    """A call with one wrong integer; `near` are wrong ones beside the right ones."""

    call: Callable[[str, int], object]
    near: tuple[int, ...]
    far: tuple[int, ...] = FAR


def rows(device: str, *sizes: int) -> tt.Tensor:
    return tt.rand(*sizes).to(device)


def whole(device: str, values: object, dtype: tt.dtype = tt.int64) -> tt.Tensor:
    return tt.tensor(values, dtype=dtype, device=device)


def pivots(device: str, values: object) -> tt.Tensor:
    return whole(device, values, tt.int32)


def bag_backward(device: str, mode: int, **wrong: object) -> object:
    bags = whole(device, [0, 1])
    found = aten._embedding_bag(rows(device, 4, 5), bags, bags, False, mode)
    of = {"indices": bags, "offset2bag": found[1], "maximum_indices": found[3]}
    of |= {name: whole(device, value) for name, value in wrong.items()}
    return aten._embedding_bag_backward(
        rows(device, 2, 5),
        of["indices"],
        bags,
        of["offset2bag"],
        found[2],
        of["maximum_indices"],
        4,
        False,
        mode,
        False,
        None,
    )


def ctc(device: str, targets: object, inputs: object, lengths: object, flat: bool = False) -> object:
    log_probs = rows(device, 6, 2, 5).log_softmax(-1)
    labels = whole(device, targets)
    return F.ctc_loss(
        log_probs, labels.reshape(-1) if flat else labels, whole(device, inputs), whole(device, lengths)
    )


def lstm(device: str, sizes: list[int]) -> object:
    layer = tt.nn.LSTM(3, 3).to(device)
    state = [tt.zeros(1, 2, 3, device=device)] * 2
    return tt.lstm(
        rows(device, 6, 3), tt.tensor(sizes), state, [*layer.parameters()], True, 1, 0.0, False, False
    )


EYE = tt.eye(3)

TABLE = {
    # LAPACK
    "ldl_solve pivots": Row(
        lambda d, n: tt.linalg.ldl_solve(EYE.to(d), pivots(d, [1, n, 3]), rows(d, 3, 1)),
        (-1, 0, 4),
        FAR_OF_INT32,
    ),
    "ldl_solve last pivot": Row(
        lambda d, n: tt.linalg.ldl_solve(EYE.to(d), pivots(d, [1, 2, n]), rows(d, 3, 1)),
        (-3, 0, 4),
        FAR_OF_INT32,
    ),
    "ldl_solve first pivot": Row(
        lambda d, n: tt.linalg.ldl_solve(EYE.to(d), pivots(d, [n, 2, 3]), rows(d, 3, 1)),
        (-1, 0, 4),
        FAR_OF_INT32,
    ),
    "ldl_solve wide pivots": Row(
        lambda d, n: tt.linalg.ldl_solve(EYE.to(d), whole(d, [1, n, 3]), rows(d, 3, 1)),
        (0, 4),
        (2**32 + 1, -(2**63)),
    ),
    "lu_solve pivots": Row(
        lambda d, n: tt.linalg.lu_solve(EYE.to(d), pivots(d, [1, n, 3]), rows(d, 3, 1)),
        (-1, 0, 4),
        FAR_OF_INT32,
    ),
    "lu_solve pivots of a batch": Row(
        lambda d, n: tt.linalg.lu_solve(
            EYE.to(d).repeat(2, 1, 1), pivots(d, [[1, 2, 3], [1, n, 3]]), rows(d, 2, 3, 1)
        ),
        (-1, 0, 4),
        FAR_OF_INT32,
    ),
    "lu_solve pivots of many": Row(
        lambda d, n: tt.linalg.lu_solve(
            EYE.to(d).repeat(200, 1, 1), pivots(d, [[1, n, 3]] * 200), rows(d, 200, 3, 1)
        ),
        (-1, 0, 4),
        FAR_OF_INT32,
    ),
    "lu_solve pivots from the right": Row(
        lambda d, n: tt.linalg.lu_solve(EYE.to(d), pivots(d, [1, n, 3]), rows(d, 1, 3), left=False),
        (-1, 0, 4),
        FAR_OF_INT32,
    ),
    "_lu_solve pivots": Row(
        lambda d, n: aten._lu_solve(EYE.to(d), pivots(d, [1, n, 3]), rows(d, 3, 1), False),
        (-1, 0, 4),
        FAR_OF_INT32,
    ),
    "lu_unpack pivots": Row(
        lambda d, n: tt.lu_unpack(EYE.to(d), pivots(d, [1, n, 3])), (-1, 0, 4), FAR_OF_INT32
    ),
    # Positions along a dimension
    "gather": Row(lambda d, n: rows(d, 4).gather(0, whole(d, [0, n])), (-1, 4)),
    "gather of many": Row(lambda d, n: rows(d, 10).gather(0, whole(d, [0, 1, 2, n] * 500)), (-1, 10)),
    "take_along_dim": Row(lambda d, n: tt.take_along_dim(rows(d, 4), whole(d, [0, n]), 0), (-5, 4)),
    "scatter": Row(lambda d, n: rows(d, 4).scatter(0, whole(d, [0, n]), rows(d, 2)), (-1, 4)),
    "scatter of a number": Row(lambda d, n: rows(d, 4).scatter(0, whole(d, [0, n]), 2.0), (-1, 4)),
    "scatter_add": Row(lambda d, n: rows(d, 4).scatter_add(0, whole(d, [0, n]), rows(d, 2)), (-1, 4)),
    "scatter_reduce": Row(
        lambda d, n: rows(d, 4).scatter_reduce(0, whole(d, [0, n]), rows(d, 2), "amax"), (-1, 4)
    ),
    "index_select": Row(lambda d, n: rows(d, 4, 5).index_select(0, whole(d, [0, n])), (-1, 4)),
    "index_add": Row(lambda d, n: rows(d, 4, 5).index_add(0, whole(d, [0, n]), rows(d, 2, 5)), (-1, 4)),
    "index_copy": Row(lambda d, n: rows(d, 4, 5).index_copy(0, whole(d, [0, n]), rows(d, 2, 5)), (-1, 4)),
    "index_fill": Row(lambda d, n: rows(d, 4, 5).index_fill(0, whole(d, [0, n]), 1.0), (-5, 4)),
    "index_reduce": Row(
        lambda d, n: rows(d, 4, 5).index_reduce(0, whole(d, [0, n]), rows(d, 2, 5), "mean"), (-1, 4)
    ),
    "subscript": Row(lambda d, n: rows(d, 4, 5)[whole(d, [0, n])], (-5, 4)),
    "subscript by two": Row(lambda d, n: rows(d, 4, 5)[whole(d, [0, 1]), whole(d, [0, n])], (-6, 5)),
    "subscript by int32": Row(lambda d, n: rows(d, 4, 5)[pivots(d, [0, n])], (-5, 4), FAR_OF_INT32),
    "_unsafe_index": Row(lambda d, n: aten._unsafe_index(rows(d, 4, 5), [whole(d, [0, n])]), (-5, 4)),
    "index_put": Row(lambda d, n: rows(d, 4, 5).index_put((whole(d, [0, n]),), rows(d, 2, 5)), (-5, 4)),
    "index_put, accumulated": Row(
        lambda d, n: rows(d, 4).index_put((whole(d, [0, 1, 2, n] * 500),), rows(d, 2000), accumulate=True),
        (-5, 4),
    ),
    "take": Row(lambda d, n: rows(d, 4, 5).take(whole(d, [0, n])), (-21, 20)),
    "put_": Row(lambda d, n: rows(d, 4, 5).put_(whole(d, [0, n]), rows(d, 2)), (-21, 20)),
    "searchsorted sorter": Row(
        lambda d, n: tt.searchsorted(rows(d, 3), rows(d, 2), sorter=whole(d, [0, 1, n])), (-1, 3)
    ),
    # Rows of tables
    "embedding": Row(lambda d, n: F.embedding(whole(d, [0, n]), rows(d, 4, 5)), (-1, 4)),
    "embedding, renormed": Row(
        lambda d, n: F.embedding(whole(d, [0, n]), rows(d, 4, 5), max_norm=0.1), (-1, 4)
    ),
    "embedding_dense_backward": Row(
        lambda d, n: aten.embedding_dense_backward(rows(d, 2, 5), whole(d, [0, n]), 4, -1, True), (-1, 4)
    ),
    "embedding_bag indices": Row(
        lambda d, n: F.embedding_bag(whole(d, [0, n]), rows(d, 4, 5), whole(d, [0])), (-1, 4)
    ),
    "embedding_bag offsets": Row(
        lambda d, n: F.embedding_bag(whole(d, [0, 1, 2]), rows(d, 4, 5), whole(d, [0, n, 2])), (-1, 4)
    ),
    "embedding_bag first offset": Row(
        lambda d, n: F.embedding_bag(whole(d, [0, 1]), rows(d, 4, 5), whole(d, [n])), (-1, 4)
    ),
    "embedding_bag last offset": Row(
        lambda d, n: F.embedding_bag(whole(d, [0, 1]), rows(d, 4, 5), whole(d, [0, n])), (-1, 4)
    ),
    "_embedding_bag_backward indices": Row(lambda d, n: bag_backward(d, 0, indices=[0, n]), (-1, 4)),
    "_embedding_bag_backward offset2bag": Row(lambda d, n: bag_backward(d, 1, offset2bag=[0, n]), (-1, 4)),
    "_embedding_bag_backward maximum_indices": Row(
        lambda d, n: bag_backward(d, 2, maximum_indices=[[0, 1, 2, 3, n]] * 2), (-1, 4)
    ),
    # Classes
    "nll_loss": Row(lambda d, n: F.nll_loss(rows(d, 2, 5), whole(d, [0, n])), (-1, 5)),
    "nll_loss of images": Row(lambda d, n: F.nll_loss(rows(d, 1, 5, 1, 2), whole(d, [[[0, n]]])), (-1, 5)),
    "cross_entropy": Row(
        lambda d, n: F.cross_entropy(rows(d, 2, 5), whole(d, [0, n]), label_smoothing=0.1), (-1, 5)
    ),
    "multi_margin_loss": Row(lambda d, n: F.multi_margin_loss(rows(d, 2, 5), whole(d, [0, n])), (-1, 5)),
    "multilabel_margin_loss": Row(
        lambda d, n: F.multilabel_margin_loss(rows(d, 1, 3), whole(d, [[0, n, -1]])), (3,), (2**31, 2**62)
    ),
    "one_hot": Row(lambda d, n: F.one_hot(whole(d, [0, n]), 4), (-1, 4)),
    "bincount": Row(lambda d, n: tt.bincount(whole(d, [0, n])), (-1,), (-(2**63), 2**62)),
    # Lengths of sequences and segments
    "ctc_loss targets": Row(lambda d, n: ctc(d, [[1, 2], [1, n]], [6, 6], [2, 2]), (-1, 5)),
    "ctc_loss targets, flat": Row(lambda d, n: ctc(d, [[1, 2], [1, n]], [6, 6], [2, 2], True), (-1, 5)),
    "ctc_loss input_lengths": Row(lambda d, n: ctc(d, [[1, 2], [1, 3]], [6, n], [2, 2]), (-1, 7)),
    "ctc_loss target_lengths": Row(lambda d, n: ctc(d, [[1, 2], [1, 3]], [6, 6], [2, n]), (-1, 3)),
    "segment_reduce lengths": Row(
        lambda d, n: tt.segment_reduce(rows(d, 5, 2), "sum", lengths=whole(d, [2, n])), (-1, 4)
    ),
    "segment_reduce offsets": Row(
        lambda d, n: tt.segment_reduce(rows(d, 5, 2), "max", offsets=whole(d, [0, n, 5])), (-1, 6)
    ),
    "repeat_interleave": Row(
        lambda d, n: tt.repeat_interleave(rows(d, 2), whole(d, [1, n]), output_size=2),
        (-1, 4),
        (-(2**63), 2**62),
    ),
    "_pack_padded_sequence lengths": Row(
        lambda d, n: aten._pack_padded_sequence(rows(d, 4, 2, 3), tt.tensor([n, 1]), False), (-1, 5)
    ),
    "_pad_packed_sequence batch_sizes": Row(
        lambda d, n: aten._pad_packed_sequence(rows(d, 6, 3), tt.tensor([2, 2, 1, n]), False, 0.0, 4), (-1, 4)
    ),
    "lstm batch_sizes": Row(lambda d, n: lstm(d, [2, 2, 1, n]), (-1, 4)),
    # Positions in planes
    "max_unpool1d": Row(lambda d, n: F.max_unpool1d(rows(d, 1, 1, 2), whole(d, [[[0, n]]]), 2), (-1, 4)),
    "max_unpool2d": Row(lambda d, n: F.max_unpool2d(rows(d, 1, 1, 1, 2), whole(d, [[[[0, n]]]]), 2), (-1, 8)),
    "fractional_max_pool2d_backward": Row(
        lambda d, n: aten.fractional_max_pool2d_backward(
            rows(d, 1, 1, 1, 2), rows(d, 1, 1, 2, 4), [2, 2], [1, 2], whole(d, [[[[0, n]]]])
        ),
        (-1, 8),
    ),
    # Geometry
    "as_strided size": Row(lambda d, n: rows(d, 4, 5).as_strided((n,), (1,)), (-1, 21)),
    "as_strided stride": Row(lambda d, n: rows(d, 4, 5).as_strided((2,), (n,)), (-1, 20)),
    "as_strided offset": Row(lambda d, n: rows(d, 4, 5).as_strided((2,), (1,), n), (-1, 19)),
    "as_strided_ stride": Row(lambda d, n: rows(d, 4, 5).as_strided_((2,), (n,)), (-1, 20)),
    "as_strided_scatter stride": Row(
        lambda d, n: tt.as_strided_scatter(rows(d, 4, 5), rows(d, 2), (2,), (n,), 0), (-1, 20)
    ),
    "_as_strided_backward stride": Row(
        lambda d, n: aten._as_strided_backward(rows(d, 2), [4, 5], [5, 1], [2], [n], 0), (-1, 20)
    ),
    "_as_strided_backward offset": Row(
        lambda d, n: aten._as_strided_backward(rows(d, 2), [4, 5], [5, 1], [2], [1], n), (-1, 19)
    ),
    "set_ stride": Row(
        lambda d, n: rows(d, 4).set_(rows(d, 4).untyped_storage(), 0, (2,), (n,)), (-1,), (-(2**63), 2**62)
    ),
    "empty_strided stride": Row(
        lambda d, n: tt.empty_strided((2,), (n,), device=d), (-1,), (-(2**63), 2**62)
    ),
    "new_empty_strided stride": Row(
        lambda d, n: rows(d, 4).new_empty_strided((2,), (n,)), (-1,), (-(2**63), 2**62)
    ),
    "new_empty_strided strides": Row(lambda d, n: rows(d, 4).new_empty_strided((2, 3), (1,) * n), (1, 3), ()),
    "select index": Row(lambda d, n: rows(d, 4, 5).select(0, n), (-5, 4)),
    "select_backward index": Row(lambda d, n: aten.select_backward(rows(d, 5), [4, 5], 0, n), (-5, 4)),
    "diagonal_backward": Row(lambda d, n: aten.diagonal_backward(rows(d, 4), [4, 5], n, 0, 1), (-1, 2)),
    "slice_backward": Row(lambda d, n: aten.slice_backward(rows(d, 2, 5), [4, 5], 0, 0, n, 1), (-1, 3)),
    "narrow length": Row(lambda d, n: rows(d, 4, 5).narrow(0, 0, n), (-1, 5)),
    "unfold size": Row(lambda d, n: rows(d, 4, 5).unfold(1, n, 1), (-1, 6)),
    "unfold step": Row(lambda d, n: rows(d, 4, 5).unfold(1, 2, n), (-1, 0), (-(2**63),)),
}


@pytest.mark.parametrize("name", TABLE)
def test_wrong_integers_are_refused(device, name):
    row = TABLE[name]
    for wrong in (*row.near, *row.far):
        with pytest.raises((RuntimeError, IndexError)):
            row.call(device, wrong)
            if device == "cuda":
                tt.cuda.synchronize()


UNREAD = {
    "nll_loss_backward": lambda d, n: aten.nll_loss_backward(
        tt.ones((), device=d), rows(d, 2, 5), whole(d, [0, n]), None, 1, -100, tt.full((), 2.0, device=d)
    ),
    "max_pool2d_with_indices_backward": lambda d, n: aten.max_pool2d_with_indices_backward(
        rows(d, 1, 1, 1, 2),
        rows(d, 1, 1, 2, 4),
        [2, 2],
        [2, 2],
        [0, 0],
        [1, 1],
        False,
        whole(d, [[[[0, n]]]]),
    ),
    "adaptive_max_pool2d_backward": lambda d, n: aten.adaptive_max_pool2d_backward(
        rows(d, 1, 1, 1, 2), rows(d, 1, 1, 2, 4), whole(d, [[[[0, n]]]])
    ),
    "_segment_reduce_backward lengths": lambda d, n: aten._segment_reduce_backward(
        rows(d, 2, 2), rows(d, 2, 2), rows(d, 5, 2), "sum", lengths=whole(d, [2, n])
    ),
    "_segment_reduce_backward offsets": lambda d, n: aten._segment_reduce_backward(
        rows(d, 2, 2), rows(d, 2, 2), rows(d, 5, 2), "max", offsets=whole(d, [0, n, 5])
    ),
    "segment_reduce lengths, unsafe": lambda d, n: tt.segment_reduce(
        rows(d, 5, 2), "sum", lengths=whole(d, [2, n]), unsafe=True
    ),
    "fractional_max_pool2d samples": lambda d, n: aten.fractional_max_pool2d(
        rows(d, 1, 1, 4, 4), [2, 2], [2, 2], tt.tensor([[[float(n), 0.5]]], device=d)
    ),
    "grid_sample": lambda d, n: F.grid_sample(
        rows(d, 1, 1, 4, 4),
        tt.tensor([[[[float(n), float("nan")]]]], device=d),
        mode="bicubic",
        padding_mode="border",
        align_corners=False,
    ),
}
"""What kernels on a GPU compare with the places that they are at, or move inside: wrong ones read nothing there."""


@pytest.mark.parametrize("name", UNREAD)
def test_integers_that_name_nothing_read_nothing(device, name):
    for wrong in (-1, 8, *FAR):
        try:
            UNREAD[name](device, wrong)
        except (RuntimeError, IndexError):
            assert device == "cpu"


def test_max_pool_backward_gives_nothing_to_an_index_of_none(device):
    grad, x = tt.ones(1, 1, 1, 2, device=device), tt.rand(1, 1, 2, 4).to(device)
    indices = tt.tensor([[[[5, -1]]]], device=device)
    made = aten.max_pool2d_with_indices_backward(grad, x, [2, 2], [2, 2], [0, 0], [1, 1], False, indices)
    assert made.flatten().tolist() == [0, 0, 0, 0, 0, 1, 0, 0]


def test_backward_of_views_broadcasts_its_gradient(device):
    made = aten.slice_backward(tt.tensor([[1.0, 2.0]], device=device), [3, 2], 0, 1, 3, 1)
    assert made.tolist() == [[0, 0], [1, 2], [1, 2]]


def test_strides_of_single_elements_need_not_fit_in_memory(device):
    x = tt.arange(4, device=device)
    assert x.unfold(0, 2, 2**62).tolist() == [[0, 1]]
    assert tt.ones(2, 2, device=device).tril(-(2**63)).tolist() == [[0, 0], [0, 0]]
