"""`BlockMask` and what makes one: the lists of blocks that PyTorch makes, parts, drawings, refusals."""

from __future__ import annotations

import functools

import pytest

import triten as tt
from triten.nn.attention import block_masks
from triten.nn.attention.flex_attention import (
    BlockMask,
    and_masks,
    create_block_mask,
    create_mask,
    noop_mask,
    or_masks,
)


def causal(b: tt.Tensor, h: tt.Tensor, q: tt.Tensor, kv: tt.Tensor) -> tt.Tensor:
    return q >= kv


def mask_of_eight(device: str = "cpu", **options: bool) -> BlockMask:
    return create_block_mask(causal, 2, 3, 8, 8, device=device, BLOCK_SIZE=(2, 4), **options)


def test_lists_of_blocks(device: str) -> None:
    mask = mask_of_eight(device)
    assert mask.shape == (2, 3, 8, 8)
    assert mask.kv_num_blocks.dtype is mask.kv_indices.dtype is tt.int32
    assert mask.kv_num_blocks[1, 2].tolist() == [1, 1, 1, 1]
    assert mask.kv_indices[1, 2].tolist() == [[0, 1], [0, 1], [1, 0], [1, 0]]
    assert mask.full_kv_num_blocks[1, 2].tolist() == [0, 0, 1, 1]
    assert mask.full_kv_indices[1, 2].tolist() == [[0, 1]] * 4
    assert mask.q_num_blocks[0, 0].tolist() == [2, 2]
    assert mask.q_indices[0, 0].tolist() == [[0, 1, 2, 3], [2, 3, 0, 1]]
    assert mask.full_q_indices[0, 0].tolist() == [[2, 3, 0, 1], [0, 1, 2, 3]]
    assert mask.to_dense()[0, 0].tolist() == [[1, 0], [1, 0], [1, 1], [1, 1]]
    assert (mask.sparsity(), mask.numel(), mask.seq_lengths, mask.BLOCK_SIZE) == (25.0, 384, (8, 8), (2, 4))


def test_blocks_that_are_not_told_apart(device: str) -> None:
    mask = mask_of_eight(device, separate_full_blocks=False)
    assert mask.full_kv_num_blocks is None
    assert mask.kv_num_blocks[0, 0].tolist() == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("descending", "partial", "full"),
    [
        (True, [[0, 0, 1, 1], [0, 0, -1, -1]], [[1, 1, 0, 0], [-1, -1, 0, 0]]),
        (False, [[0, 0, 0, 0], [1, 1, 1, 1]], [[0, 0, 0, 0], [1, 1, 1, 1]]),
    ],
)
def test_orders_of_gradients(
    descending: bool, partial: list[list[int]], full: list[list[int]], device: str
) -> None:
    mask = mask_of_eight(device, compute_dq_write_order=True, dq_kv_order=descending)
    assert mask.dq_write_order[0, 0].tolist() == partial
    assert mask.dq_write_order_full[1, 2].tolist() == full
    assert mask.dq_kv_order_spt is descending
    assert mask[0].dq_write_order.shape == (1, 3, 2, 4)


def test_rows_that_are_asked_for_a_few_at_a_time(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = create_block_mask(causal, 2, None, 11, 7, device=device, BLOCK_SIZE=(2, 3))
    monkeypatch.setattr(block_masks, "TILE_ELEMENTS", 60)
    divided = create_block_mask(causal, 2, None, 11, 7, device=device, BLOCK_SIZE=(2, 3))
    for one, other in zip(whole.as_tuple(), divided.as_tuple(), strict=True):
        assert tt.equal(one, other) if isinstance(one, tt.Tensor) else one == other


def test_parts(device: str) -> None:
    mask = mask_of_eight(device)
    part = mask[1:, -1]
    assert part.shape == (1, 1, 8, 8)
    assert part.kv_num_blocks.tolist() == [[[1, 1, 1, 1]]]
    assert mask[:, :, tt.tensor([3], device=device)].full_kv_num_blocks[0, 0].tolist() == [1]
    with pytest.raises(RuntimeError, match="Cannot use mask_mod from a sliced BlockMask"):
        part.mask_mod(*tt.zeros(4).unbind())


def test_corner(device: str) -> None:
    corner = mask_of_eight(device)._adjust(5, 6)
    assert corner.shape == (2, 3, 5, 6)
    assert corner.mask_mod is causal
    assert corner.kv_num_blocks[0, 0].tolist() == [1, 1, 1]
    assert corner.kv_indices[0, 0].tolist() == [[0, 1], [0, 1], [1, 0]]
    assert corner.to_dense()[0, 0].tolist() == [[1, 0], [1, 0], [1, 1]]


def test_a_corner_keeps_only_blocks_in_it(device: str) -> None:
    last = create_block_mask(lambda b, h, q, kv: kv >= 4, None, None, 6, 6, device=device, BLOCK_SIZE=2)
    assert last._adjust(6, 4).to_dense().sum().item() == 0


def test_drawing() -> None:
    mask = mask_of_eight()
    advice = (
        "\n...\nTo print out more, set BlockMask.to_string(limit=N)\n"
        "You can also index (BlockMask[batch, head]) to choose a specific batch or head"
    )
    assert mask.to_string(limit=1) == f"(0, 0)\n██  \n██  \n████\n████\n{advice}"
    assert mask.to_string(grid_size=2, limit=1) == f"(0, 0)\n██  \n████\n{advice}"
    assert mask.to_string(grid_size=1, limit=1) == f"(0, 0)\n░░\n{advice}"
    assert (
        mask.to_string(grid_size=-1) == mask.to_string(grid_size=(4, 2))[: len(mask.to_string(grid_size=-1))]
    )
    assert (
        str(mask[0, 0])
        == "BlockMask(shape=(1, 1, 8, 8), sparsity=25.00%, \n(0, 0)\n██  \n██  \n████\n████\n)"
    )
    lines = repr(mask).splitlines()
    assert lines[0] == "BlockMask("
    assert lines[9:] == [
        "    BLOCK_SIZE=(2, 4),",
        "    shape=(2, 3, 8, 8),",
        "    sparsity=25.00%,",
        "    mask_mod=causal",
        ")",
    ]


def test_as_tuple() -> None:
    mask = mask_of_eight()
    flat, nested = mask.as_tuple(), mask.as_tuple(flatten=False)
    assert (len(flat), len(nested)) == (17, 15)
    assert (*flat[:2], *flat[-3:]) == (8, 8, 2, 4, causal)
    assert (nested[0], nested[-2], nested[-1]) == ((8, 8), (2, 4), causal)
    assert flat[7] is mask.q_indices
    assert BlockMask(nested[0], *nested[1:9], BLOCK_SIZE=nested[-2]).mask_mod is noop_mask


def test_to_another_device(device: str) -> None:
    mask = mask_of_eight().to(device)
    assert mask.kv_indices.device.type == mask.full_q_num_blocks.device.type == device
    assert mask.mask_mod is causal
    assert mask.dq_write_order is None
    assert mask.to("meta").kv_indices.is_meta


def test_from_blocks(device: str) -> None:
    counts = tt.tensor([[[1, 2]]], dtype=tt.int32, device=device)
    columns = tt.tensor([[[[2, 0, 1], [1, 2, 0]]]], dtype=tt.int32, device=device)
    mask = BlockMask.from_kv_blocks(counts, columns, BLOCK_SIZE=(4, 2))
    assert mask.seq_lengths == (8, 6)
    assert mask.to_dense()[0, 0].tolist() == [[0, 0, 1], [0, 1, 1]]
    assert mask.q_num_blocks[0, 0].tolist() == [0, 1, 2]
    assert BlockMask.from_kv_blocks(counts, columns, compute_q_blocks=False).q_indices is None
    assert BlockMask.from_kv_blocks(counts, columns, dq_kv_order=True).dq_kv_order_spt is True
    ordered = BlockMask.from_kv_blocks(counts, columns, dq_kv_order=columns)
    for use in (lambda: ordered[0], lambda: ordered._adjust(4, 4)):
        with pytest.raises(NotImplementedError, match="tensor dq_kv_order is not supported"):
            use()


def test_masks_as_tensors(device: str) -> None:
    make = functools.partial(create_mask, B=None, H=None, Q_LEN=3, KV_LEN=3, device=device)
    assert make(causal).int()[0, 0].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert make(noop_mask).all()
    strict = make(lambda score, b, h, q, kv: tt.where(q > kv, score, -float("inf")))
    assert strict.int()[0, 0].tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    diagonal = and_masks(causal, lambda b, h, q, kv: q <= kv)
    assert make(diagonal).int()[0, 0].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert make(or_masks(diagonal, lambda b, h, q, kv: kv == 2)).int()[0, 0].tolist() == [
        [1, 0, 1],
        [0, 1, 1],
        [0, 0, 1],
    ]
    assert make(and_masks()).all()
    assert not make(or_masks()).any()
    heads = create_mask(lambda b, h, q, kv: (h > b) & (q >= kv), 2, 3, 1, 1, device=device)
    assert heads.flatten(1).tolist() == [[False, True, True], [False, False, True]]


def test_refusals() -> None:
    counts, columns = tt.zeros(1, 1, 2, dtype=tt.int32), tt.zeros(1, 1, 2, 2, dtype=tt.int32)
    for use, error, words in [
        (
            lambda: BlockMask.from_kv_blocks(counts[0, 0], columns[0, 0, 0]),
            RuntimeError,
            "at least 2 dimensions",
        ),
        (
            lambda: BlockMask.from_kv_blocks(counts, columns, counts),
            AssertionError,
            "both provided or omitted",
        ),
        (lambda: BlockMask.from_kv_blocks(counts, columns, dq_kv_order=3), ValueError, "dq_kv_order must be"),
        (lambda: BlockMask((2, 2), None, columns, *[None] * 6), AssertionError, "must be provided"),
        (
            lambda: BlockMask((2, 2), counts, columns, None, None, None, None, counts, None),
            AssertionError,
            "full_q",
        ),
        (
            lambda: BlockMask((2, 2), counts, columns, *[None] * 6, dq_write_order_full=counts),
            ValueError,
            "requires dq_write_order",
        ),
        (lambda: or_masks(causal, 3), RuntimeError, "should be callable"),
        (lambda: and_masks(None), RuntimeError, "should be callable"),
        (
            lambda: create_mask(lambda q, kv: q >= kv, 1, 1, 2, 2),
            AssertionError,
            "4 or 5 positional args, got 2",
        ),
        (
            lambda: create_block_mask(lambda s, b, h, q, kv: s, 1, 1, 2, 2, device="cpu"),
            AssertionError,
            "requires a mask_mod",
        ),
        (
            lambda: create_block_mask(lambda b, h, q, kv: q - kv, 1, 1, 2, 2, device="cpu"),
            AssertionError,
            "mask.dtype must be torch.bool, got triten.int64",
        ),
        (
            lambda: create_block_mask(causal, 1, 1, 2, 2, device="cpu", dq_kv_order=counts),
            ValueError,
            "dq_kv_order must be a bool",
        ),
    ]:
        with pytest.raises(error, match=words):
            use()
    with pytest.warns(DeprecationWarning, match="_compile"):
        create_block_mask(causal, 1, 1, 2, 2, device="cpu", _compile=True)
