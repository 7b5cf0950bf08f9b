"""Masks of attention by blocks: which blocks of the scores are empty, which are full, and a function for the rest."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

from ...accelerator import current_accelerator
from ...dispatch.generated import functions as _ops
from ...dispatch.tensor import Tensor
from ...runtime.scalar_type import bool_, int32, int64
from ...runtime.tensor_impl import TensorImpl
from .mask_functions import MaskMod, mask_of, noop_mask, sliced_mask, takes_score_first

if TYPE_CHECKING:
    from ...runtime.device import DeviceLike

__all__ = ["BlockMask", "create_block_mask"]

DEFAULT_BLOCK_SIZE = 128
TILE_ELEMENTS = 1 << 24
"""How many scores, or elements of a mask, are worked on at once. A matrix of no more is not divided."""


def _dense(num_blocks: Tensor, indices: Tensor, columns: int) -> Tensor:
    """Return the dense grid of blocks, int32 of shape (..., rows, columns): 1 for listed blocks, else 0."""
    listed = _ops.arange(indices.size(-1), device=indices.device) < num_blocks.unsqueeze(-1)
    # Entries beyond a row's count scatter into an extra column, which is cut off below.
    targets = _ops.where(listed, indices, columns).to(int64)
    grid = _ops.zeros((*indices.shape[:-1], columns + 1), dtype=int32, device=indices.device)
    return grid.scatter(-1, targets, 1)[..., :columns].contiguous()


def _ordered(grid: Tensor) -> tuple[Tensor, Tensor]:
    """Return the block count of each row of a grid and its column indices, listed blocks first."""
    grid = grid.to(int32)
    columns = _ops.argsort(grid, dim=-1, descending=True, stable=True)
    return grid.sum(dim=-1).to(int32).contiguous(), columns.to(int32).contiguous()


def _transposed(num_blocks: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
    return _ordered(_dense(num_blocks, indices, indices.size(-1)).transpose(-2, -1))


class BlockMask:
    """Block-sparse mask of attention scores (`torch.nn.attention.flex_attention.BlockMask`).

    `create_block_mask` builds a mask from a function. Each row of blocks is a count and a list of columns:

    - ``kv_indices[..., row, : kv_num_blocks[..., row]]`` are partial blocks, in which `mask_mod` decides.
    - ``full_kv_*`` list full blocks, in which no score is masked.
    - ``q_*`` and ``full_q_*`` list the same blocks by columns.

    All other blocks are empty. Entries beyond a row's count are ignored.

    Args:
        seq_lengths: The numbers of queries and keys.
        kv_num_blocks: int32 of shape (B, H, rows).
        kv_indices: int32 of shape (B, H, rows, columns).
        full_kv_num_blocks, full_kv_indices: the full blocks; both or neither.
        q_num_blocks, q_indices, full_q_num_blocks, full_q_indices: the transposes.
        BLOCK_SIZE: The numbers of queries and keys in a block.
        mask_mod: takes the indices of batch, head, query and key, and returns whether the score counts.
        dq_write_order, dq_write_order_full, dq_kv_order, dq_kv_order_spt: in which order PyTorch's deterministic
            kernels add up gradients. They are carried along; nothing here needs them.

    Raises:
        RuntimeError: if `kv_indices` has less than two dimensions.
        AssertionError: if of two tensors that belong together one is missing.
        ValueError: for `dq_write_order_full` without `dq_write_order`.

    Example:
        >>> from triten.nn.attention.flex_attention import create_block_mask
        >>> mask = create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 6, 6, device="cpu", BLOCK_SIZE=2)
        >>> mask.shape, mask.to_dense()[0, 0].tolist()
        ((1, 1, 6, 6), [[1, 0, 0], [1, 1, 0], [1, 1, 1]])
        >>> mask.kv_num_blocks.tolist(), mask.full_kv_num_blocks.tolist()
        ([[[1, 1, 1]]], [[[0, 1, 2]]])
        >>> print(mask)
        BlockMask(shape=(1, 1, 6, 6), sparsity=33.33%,
        (0, 0)
        ██
        ████
        ██████
        )
    """

    _TENSOR_ATTRS = (
        "kv_num_blocks",
        "kv_indices",
        "full_kv_num_blocks",
        "full_kv_indices",
        "q_num_blocks",
        "q_indices",
        "full_q_num_blocks",
        "full_q_indices",
        "dq_write_order",
        "dq_write_order_full",
        "dq_kv_order",
    )

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (DEFAULT_BLOCK_SIZE, DEFAULT_BLOCK_SIZE),
        mask_mod: MaskMod = noop_mask,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Tensor | None = None,
        dq_kv_order_spt: bool | None = None,
    ) -> None:
        if kv_num_blocks is None or kv_indices is None:
            raise AssertionError("kv_num_blocks and kv_indices must be provided")
        _check_blocks(kv_indices, full_kv_num_blocks, full_kv_indices)
        if (full_q_num_blocks is None) != (full_q_indices is None):
            raise AssertionError("full_q_num_blocks and full_q_indices must be both provided or omitted")
        if dq_write_order_full is not None and dq_write_order is None:
            raise ValueError("dq_write_order_full requires dq_write_order")
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks, self.full_kv_indices = full_kv_num_blocks, full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks, self.full_q_indices = full_q_num_blocks, full_q_indices
        self.dq_write_order, self.dq_write_order_full = dq_write_order, dq_write_order_full
        self.dq_kv_order, self.dq_kv_order_spt = dq_kv_order, dq_kv_order_spt
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK_SIZE,
        mask_mod: MaskMod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Tensor | bool | None = None,
    ) -> Self:
        """Build a mask from these blocks, with their transposes unless `compute_q_blocks` is False.

        Args:
            kv_num_blocks: int32 of shape (B, H, rows).
            kv_indices: int32 of shape (B, H, rows, columns).
            full_kv_num_blocks, full_kv_indices: the full blocks; both or neither.
            BLOCK_SIZE: The numbers of queries and keys in a block; an int for both.
            mask_mod: decides in the blocks of `kv_indices`; if None every score counts in those too.
            seq_lengths: The numbers of queries and keys. Default: None, as many as the blocks hold.

        Raises:
            RuntimeError: if `kv_indices` has less than two dimensions.
            AssertionError: if one of ``full_kv_*`` is missing.
            ValueError: if `dq_kv_order` is neither a bool nor a tensor.

        Example:
            >>> import triten as tt
            >>> from triten.nn.attention.flex_attention import BlockMask
            >>> blocks = tt.tensor([[[[0, 1], [1, 0]]]], dtype=tt.int32)
            >>> mask = BlockMask.from_kv_blocks(tt.ones(1, 1, 2, dtype=tt.int32), blocks, BLOCK_SIZE=2)
            >>> mask.to_dense()[0, 0].tolist(), mask.seq_lengths
            ([[1, 0], [0, 1]], (4, 4))
        """
        _check_blocks(kv_indices, full_kv_num_blocks, full_kv_indices)
        if dq_kv_order is not None and not isinstance(dq_kv_order, bool | TensorImpl):
            raise ValueError(f"dq_kv_order must be a bool, Tensor, or None, got {type(dq_kv_order).__name__}")
        by_columns: tuple[Tensor, Tensor] | tuple[None, None] = (None, None)
        full_by_columns: tuple[Tensor, Tensor] | tuple[None, None] = (None, None)
        if compute_q_blocks:
            by_columns = _transposed(kv_num_blocks, kv_indices)
            if full_kv_num_blocks is not None and full_kv_indices is not None:
                full_by_columns = _transposed(full_kv_num_blocks, full_kv_indices)
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        if seq_lengths is None:
            seq_lengths = kv_indices.size(-2) * size[0], kv_indices.size(-1) * size[1]
        return cls(
            seq_lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            by_columns[0],
            by_columns[1],
            full_by_columns[0],
            full_by_columns[1],
            BLOCK_SIZE=size,
            mask_mod=noop_mask if mask_mod is None else mask_mod,
            dq_write_order=dq_write_order,
            dq_write_order_full=dq_write_order_full,
            dq_kv_order=None if isinstance(dq_kv_order, bool) else dq_kv_order,
            dq_kv_order_spt=dq_kv_order if isinstance(dq_kv_order, bool) else None,
        )

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """Return all attributes: lengths, tensors, block sizes, `mask_mod`.

        Args:
            flatten: If False, lengths and block sizes stay pairs. Default: True.
        """
        lengths, size = (
            (self.seq_lengths, self.BLOCK_SIZE) if flatten else ((self.seq_lengths,), (self.BLOCK_SIZE,))
        )
        tensors = (getattr(self, name) for name in self._TENSOR_ATTRS)
        return (*lengths, *tensors, self.dq_kv_order_spt, *size, self.mask_mod)

    @property
    def shape(self) -> tuple[int, ...]:
        """Batch, heads, queries and keys."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """Return the number of elements of the dense mask."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """Return the percentage of scores in empty blocks; negative if blocks extend past the sequences."""
        blocks = int(self.kv_num_blocks.sum().item())
        if self.full_kv_num_blocks is not None:
            blocks += int(self.full_kv_num_blocks.sum().item())
        return 100 * (1 - blocks * self.BLOCK_SIZE[0] * self.BLOCK_SIZE[1] / self.numel())

    def to_dense(self) -> Tensor:
        """Return the grid of blocks, int32 of shape (B, H, rows, columns): 0 for empty blocks, else 1."""
        grid = _dense(self.kv_num_blocks, self.kv_indices, self.kv_indices.size(-1))
        if self.full_kv_num_blocks is None or self.full_kv_indices is None:
            return grid
        return grid | _dense(self.full_kv_num_blocks, self.full_kv_indices, self.full_kv_indices.size(-1))

    def to_string(self, grid_size: int | tuple[int, int] = (20, 20), limit: int = 4) -> str:
        """Render the grid of blocks as text.

        A cell covers several blocks: ``██`` if all are nonempty, ``░░`` if some are, blank if none is.

        Args:
            grid_size: The maximum number of rows and columns to render; -1 renders all. Default: (20, 20).
            limit: The maximum number of (batch, head) pairs to render. Default: 4.
        """
        grid = self.to_dense().cpu()
        heights = (grid_size, grid_size) if isinstance(grid_size, int) else grid_size
        steps = [
            1 if max_cells < 0 else max(1, -(-size // max_cells))
            for size, max_cells in zip(grid.shape[-2:], heights, strict=True)
        ]
        drawings: list[str] = []
        for batch_and_head in itertools.product(*map(range, grid.shape[:-2])):
            if len(drawings) == limit:
                drawings += [
                    "...",
                    "To print out more, set BlockMask.to_string(limit=N)",
                    "You can also index (BlockMask[batch, head]) to choose a specific batch or head",
                ]
                break
            rows = grid[batch_and_head].tolist()
            lines = []
            for row in range(0, len(rows), steps[0]):
                line = ""
                for column in range(0, grid.size(-1), steps[1]):
                    cells = [
                        cell
                        for each in rows[row : row + steps[0]]
                        for cell in each[column : column + steps[1]]
                    ]
                    line += "██" if all(cells) else "░░" if any(cells) else "  "
                lines.append(f"{line}\n")
            drawings.append(f"{batch_and_head}\n{''.join(lines)}")
        return "\n".join(drawings)

    def __str__(self) -> str:
        return (
            f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%, \n{self.to_string().strip()}\n)"
        )

    def __repr__(self) -> str:
        tensors = {name: getattr(self, name) for name in self._TENSOR_ATTRS[:8]}
        fields = {
            **{name: None if tensor is None else tensor.shape for name, tensor in tensors.items()},
            "BLOCK_SIZE": self.BLOCK_SIZE,
            "shape": self.shape,
            "sparsity": f"{self.sparsity():.2f}%",
            "mask_mod": getattr(self.mask_mod, "__name__", self.mask_mod),
        }
        return "BlockMask(\n" + ",\n".join(f"    {name}={value}" for name, value in fields.items()) + "\n)"

    def __getitem__(self, index: int | slice | Tensor | tuple[int | slice | Tensor, ...]) -> BlockMask:
        """Select batches, heads and rows of blocks. An integer index keeps its dimension, with size 1.

        The result has no usable `mask_mod`, because its row indices start at 0. Set one before using the mask.

        Raises:
            NotImplementedError: The mask has a tensor `dq_kv_order`.
        """
        self._check_order("Slicing")
        several = index if isinstance(index, tuple) else (index,)
        selectors = (*several, slice(None), slice(None), slice(None))[:3]
        chosen = tuple(
            (
                slice(selector + size, selector + size + 1)
                if -size <= selector < 0
                else slice(selector, selector + 1)
            )
            if isinstance(selector, int)
            else selector
            for selector, size in zip(selectors, self.kv_num_blocks.shape[:3], strict=True)
        )
        return self._with_blocks(
            lambda num_blocks, indices: (num_blocks[chosen], indices[chosen]), sliced_mask
        )

    def _adjust(self, new_q_len: int, new_kv_len: int) -> BlockMask:
        """Crop the mask to the upper left `new_q_len` x `new_kv_len` corner; `mask_mod` stays the same.

        Raises:
            NotImplementedError: The mask has a tensor `dq_kv_order`.
        """
        self._check_order("Adjusting")
        rows, columns = -(-new_q_len // self.BLOCK_SIZE[0]), -(-new_kv_len // self.BLOCK_SIZE[1])

        def corner(num_blocks: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
            return _ordered(_dense(num_blocks, indices, indices.size(-1))[..., :rows, :columns])

        return self._with_blocks(corner, self.mask_mod, (new_q_len, new_kv_len))

    def _check_order(self, operation: str) -> None:
        if self.dq_kv_order is not None:
            raise NotImplementedError(
                f"{operation} BlockMask with tensor dq_kv_order is not supported yet. Construct a new BlockMask with "
                "matching precomputed dq_write_order metadata."
            )

    def _with_blocks(
        self,
        transform: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]],
        mask_mod: MaskMod,
        seq_lengths: tuple[int, int] | None = None,
    ) -> BlockMask:
        """Return a copy of this mask with other lists of blocks."""
        full: tuple[Tensor, Tensor] | tuple[None, None] = (None, None)
        if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
            full = transform(self.full_kv_num_blocks, self.full_kv_indices)
        num_blocks, indices = transform(self.kv_num_blocks, self.kv_indices)
        changed = BlockMask.from_kv_blocks(
            num_blocks,
            indices,
            full[0],
            full[1],
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=mask_mod,
            seq_lengths=self.seq_lengths if seq_lengths is None else seq_lengths,
            compute_q_blocks=self.q_indices is not None,
        )
        changed.dq_kv_order_spt = self.dq_kv_order_spt
        if self.dq_write_order is not None:
            changed._compute_write_order(bool(self.dq_kv_order_spt))
        return changed

    def to(self, device: DeviceLike) -> BlockMask:
        """Copy the mask's tensors to `device`. Tensors that `mask_mod` captures stay where they are."""
        tensors: dict[str, Any] = {name: getattr(self, name) for name in self._TENSOR_ATTRS}
        moved: dict[str, Any] = {
            name: None if tensor is None else tensor.to(device) for name, tensor in tensors.items()
        }
        return BlockMask(
            self.seq_lengths,
            **moved,
            BLOCK_SIZE=self.BLOCK_SIZE,
            mask_mod=self.mask_mod,
            dq_kv_order_spt=self.dq_kv_order_spt,
        )

    def _compute_write_order(self, descending: bool) -> None:
        """Set `dq_write_order`: for each block by columns, which of its row's blocks it is, from the end if descending.

        Raises ValueError where there are no lists by columns.
        """
        if self.q_indices is None:
            raise ValueError("BlockMask must have q_num_blocks and q_indices to compute dq_write_order")
        grid = self.to_dense()
        counted = grid.cumsum(-1)
        ranks = counted - grid
        if descending:
            ranks = counted[..., -1:] - 1 - ranks
        by_columns = ranks.transpose(-2, -1)
        last_row = grid.size(-2) - 1

        def order(rows: Tensor) -> Tensor:
            return (
                by_columns.expand(*rows.shape[:-1], -1).gather(-1, rows.long().clamp(0, last_row)).to(int32)
            )

        self.dq_write_order = order(self.q_indices)
        self.dq_write_order_full = None if self.full_q_indices is None else order(self.full_q_indices)
        self.dq_kv_order_spt = descending

    def grids(self) -> tuple[Tensor, Tensor | None]:
        """Return the dense grids of partial and of full blocks, bool of shape (B, H, rows, columns)."""
        partial, full = self._cached_grids()[0]
        return partial, full

    def occupied_columns(self) -> list[list[int]]:
        """Return, for each row, the columns in which any batch or head has a block.

        The first call synchronizes with the device.
        """
        cached = self._cached_grids()
        if cached[1] is None:
            partial, full = cached[0]
            grid = partial if full is None else partial | full
            any_of_them = grid.reshape(-1, *grid.shape[-2:]).any(0).tolist()
            cached[1] = [[column for column, has in enumerate(row) if has] for row in any_of_them]
        occupied: list[list[int]] = cached[1]
        return occupied

    def _cached_grids(self) -> list[Any]:
        """Return the cached grids and columns; recompute them if a block tensor was replaced or written in-place."""
        blocks = (self.kv_num_blocks, self.kv_indices, self.full_kv_num_blocks, self.full_kv_indices)
        state = [(id(tensor), None if tensor is None else tensor._version) for tensor in blocks]
        cached: tuple[Any, list[Any]] | None = self.__dict__.get("_cached_state")
        if cached is None or cached[0] != state:
            partial = _dense(self.kv_num_blocks, self.kv_indices, self.kv_indices.size(-1)).to(bool_)
            full = None
            if self.full_kv_num_blocks is not None and self.full_kv_indices is not None:
                full = _dense(
                    self.full_kv_num_blocks, self.full_kv_indices, self.full_kv_indices.size(-1)
                ).to(bool_)
            cached = state, [(partial, full), None]
            self._cached_state = cached
        return cached[1]


def _check_blocks(kv_indices: Tensor, full_num_blocks: Tensor | None, full_indices: Tensor | None) -> None:
    if kv_indices.dim() < 2:
        raise RuntimeError(
            f"BlockMask must have at least 2 dimensions, got kv_indices with {kv_indices.dim()}"
        )
    if (full_num_blocks is None) != (full_indices is None):
        raise AssertionError("full_kv_num_blocks and full_kv_indices must be both provided or omitted")


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: DeviceLike | None = None,
    BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK_SIZE,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:
    """Build the `BlockMask` of a function (`torch.nn.attention.flex_attention.create_block_mask`).

    The function is evaluated on a few rows of blocks at a time, so that long sequences need no dense mask.

    Args:
        mask_mod: takes the indices of batch, head, query and key as tensors without dimensions, and returns whether the
            score counts.
        B, H: The numbers of batches and heads; None is 1, for a mask that is the same for all.
        Q_LEN, KV_LEN: The numbers of queries and keys.
        device: if None the accelerator, or the CPU without one.
        BLOCK_SIZE: The numbers of queries and keys in a block; an int for both.
        separate_full_blocks: If True, blocks in which all scores count are listed as full, where `mask_mod` is not
            asked again. Default: True.
        compute_dq_write_order, dq_kv_order: whether the mask has the orders that PyTorch's deterministic kernels want,
            and whether they descend.

    Raises:
        AssertionError: for a function of other than four arguments, and one that returns no bools.
        ValueError: for a `dq_kv_order` that is no bool.

    Example:
        >>> import triten as tt
        >>> from triten.nn.attention.flex_attention import create_block_mask, flex_attention
        >>> mask = create_block_mask(lambda b, h, q, kv: q >= kv, None, None, 4, 4, device="cpu", BLOCK_SIZE=2)
        >>> x = tt.arange(4.0).reshape(1, 1, 4, 1)
        >>> flex_attention(tt.zeros_like(x), x, x, block_mask=mask).flatten()
        tensor([0.0000, 0.5000, 1.0000, 1.5000])
    """
    if takes_score_first(mask_mod):
        raise AssertionError(f"create-block_mask requires a mask_mod function! Got {mask_mod}")
    if not isinstance(dq_kv_order, bool):
        raise ValueError(
            f"dq_kv_order must be a bool when using create_block_mask, got {type(dq_kv_order).__name__}"
        )
    if _compile:
        warnings.warn(
            "_compile of create_block_mask is deprecated and changes nothing; use compile(create_block_mask)",
            DeprecationWarning,
            stacklevel=2,
        )
    device = (current_accelerator() or "cpu") if device is None else device
    size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
    batch, heads = 1 if B is None else B, 1 if H is None else H
    somewhere, everywhere = [], []
    for rows in _rows_at_a_time(batch * heads * KV_LEN, Q_LEN, size[0]):
        mask = mask_of(mask_mod, batch, heads, rows, KV_LEN, device)
        if mask.dtype is not bool_:
            raise AssertionError(f"mask.dtype must be torch.bool, got {mask.dtype}: what mask_mod returns")
        padding = (0, -KV_LEN % size[1], 0, -len(rows) % size[0])
        blocks = (
            _ops.constant_pad_nd(mask, padding, False)
            .unflatten(-1, (-1, size[1]))
            .unflatten(-3, (-1, size[0]))
        )
        somewhere.append(blocks.any(-1).any(-2))
        everywhere.append(blocks.all(-1).all(-2))
    some, full = _ops.cat(somewhere, 2), _ops.cat(everywhere, 2)
    num_blocks, indices = _ordered(some & ~full if separate_full_blocks else some)
    full_num_blocks, full_indices = _ordered(full) if separate_full_blocks else (None, None)
    block_mask = BlockMask.from_kv_blocks(
        num_blocks,
        indices,
        full_num_blocks,
        full_indices,
        BLOCK_SIZE=size,
        mask_mod=mask_mod,
        seq_lengths=(Q_LEN, KV_LEN),
    )
    if compute_dq_write_order:
        block_mask._compute_write_order(dq_kv_order)
    return block_mask


def _rows_at_a_time(elements_in_row: int, rows: int, block: int) -> Iterator[range]:
    """Yield ranges of rows: whole blocks of at most `TILE_ELEMENTS` elements, but at least one block."""
    step = max(1, TILE_ELEMENTS // max(1, elements_in_row * block)) * block
    for start in range(0, max(rows, 1), step):
        yield range(start, min(start + step, rows))
