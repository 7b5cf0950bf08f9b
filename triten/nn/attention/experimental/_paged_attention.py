"""Keys and values of many sequences in pages of one cache (`torch.nn.attention.experimental._paged_attention`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....dispatch.generated import functions as _ops
from ....dispatch.tensor_data import tensor
from ....runtime.scalar_type import int32, int64
from ..block_masks import BlockMask
from ..mask_functions import MaskMod, ScoreMod, noop_mask

if TYPE_CHECKING:
    from ....dispatch.tensor import Tensor
    from ....runtime.device import DeviceLike

__all__ = ["PagedAttention"]


class PagedAttention:
    """Which pages of a cache belong to which sequence, and masks that say it to `flex_attention`.

    A cache (1, H, `n_pages` * `page_size`, D) has its pages one after another. A sequence has as many as its tokens
    need, anywhere in it. `flex_attention` over the whole cache, with a mask that `convert_logical_block_mask` makes,
    looks at the pages of each sequence alone. The same table serves `varlen_attn`, whose kernel reads the pages itself
    (see the example). (`torch.nn.attention.experimental._paged_attention.PagedAttention`.)

    Args:
        n_pages: how many pages the cache has.
        page_size: how many tokens a page has.
        max_batch_size: how many sequences there may be.
        device: The device of the tables.

    Attributes:
        page_table: the page of each `page_size` tokens of a sequence, -1 for none: int64 of (max_batch_size, n_pages).
        capacity: for how many tokens each sequence has pages: int64 of (max_batch_size,).
        empty_pages: the numbers of the pages that nobody has; the last one is taken first.
        physical_to_logical: The block of a sequence that a page holds, or -1; laid out as `page_table`.

    Example:
        >>> import triten as tt
        >>> from triten.nn.attention.experimental._paged_attention import PagedAttention
        >>> from triten.nn.attention.varlen import varlen_attn
        >>> pages = PagedAttention(n_pages=4, page_size=2, max_batch_size=2, device="cpu")
        >>> keys, values = tt.zeros(1, 1, 8, 4, dtype=tt.float16), tt.zeros(1, 1, 8, 4, dtype=tt.float16)
        >>> one = tt.tensor([1])
        >>> pages.reserve(one, tt.tensor([3]))
        >>> new = tt.tensor([1.0, 2.0, 6.0], dtype=tt.float16).reshape(1, 1, 3, 1).expand(1, 1, 3, 4)
        >>> pages.assign(one, tt.tensor([[0, 1, 2]]), tt.zeros_like(new), new, keys, values)
        >>> pages.page_table[1].tolist()
        [1, 0, -1, -1]
        >>> pools = [x[0].unflatten(1, (4, 2)).permute(1, 2, 0, 3) for x in (keys, values)]
        >>> where = {"seqused_k": tt.tensor([3], dtype=tt.int32), "block_table": pages.page_table[one].int()}
        >>> starts = tt.tensor([0, 1], dtype=tt.int32)
        >>> varlen_attn(tt.zeros(1, 1, 4, dtype=tt.float16), *pools, starts, None, 1, 3, **where).flatten().tolist()
        [3.0, 3.0, 3.0, 3.0]
    """

    def __init__(
        self, n_pages: int, page_size: int, max_batch_size: int, device: DeviceLike = "cuda"
    ) -> None:
        self.n_pages, self.page_size = n_pages, page_size
        self.page_table = _ops.full((max_batch_size, n_pages), -1, dtype=int64, device=device)
        self.physical_to_logical = self.page_table.clone()
        self.capacity = _ops.zeros((max_batch_size,), dtype=int64, device=device)
        self.empty_pages = list(range(n_pages - 1, -1, -1))

    def reserve(self, batch_idx: Tensor, seq_len: Tensor) -> None:
        """Give a sequence pages until it has enough for so many tokens. Waits for the device.

        Args:
            batch_idx: the sequence's number, of shape (1).
            seq_len: the tokens, of shape (1).

        Raises:
            AssertionError: if there are fewer empty pages than it needs.
        """
        first = int(self.capacity[batch_idx].item()) // self.page_size
        count = -(-int(seq_len.item()) // self.page_size) - first
        if count <= 0:
            return
        if len(self.empty_pages) < count:
            raise AssertionError(
                f"requested {count} pages but there are only {len(self.empty_pages)} empty pages"
            )
        device = self.page_table.device
        pages = tensor(self.empty_pages[-count:], dtype=int64, device=device)
        del self.empty_pages[-count:]
        self.page_table[batch_idx, first : first + count] = pages
        self.physical_to_logical[batch_idx, pages] = _ops.arange(first, first + count, device=device)
        self.capacity[batch_idx] += count * self.page_size

    def erase(self, batch_idx: Tensor) -> None:
        """Take all pages of a sequence, of whose number `batch_idx` is of shape (1), back. Waits for the device."""
        self.empty_pages += [page for page in self.page_table[batch_idx].flatten().tolist() if page != -1]
        self.page_table[batch_idx] = -1
        self.physical_to_logical[batch_idx] = -1
        self.capacity[batch_idx] = 0

    def assign(
        self,
        batch_idx: Tensor,
        input_pos: Tensor,
        k_val: Tensor,
        v_val: Tensor,
        k_cache: Tensor,
        v_cache: Tensor,
    ) -> None:
        """Write the keys and values of some tokens to the pages of their sequences.

        Args:
            batch_idx: The indices of the sequences, of shape (B).
            input_pos: The token positions of shape (B, S), for which `reserve` was called.
            k_val, v_val: The keys and values of shape (B, H, S, D).
            k_cache, v_cache: The caches of shape (1, H, n_pages * page_size, D).

        Raises:
            RuntimeError: `k_val` requires grad, or shapes do not match.
        """
        if k_val.requires_grad:
            raise RuntimeError("val must not require gradient")
        batch, heads, length, width = k_val.shape
        expected = (
            ("val and batch_idx have the same batch size", "B", batch, batch_idx.shape[0]),
            ("val and cache has the same number of heads", "H", heads, k_cache.shape[1]),
            ("val and input_pos has the same length", "S", length, input_pos.shape[1]),
            ("k_val and k_cache has the same hidden dim", "D", width, k_cache.shape[3]),
            ("v_val and v_cache has the same hidden dim", "D", v_val.shape[3], v_cache.shape[3]),
        )
        for requirement, letter, size, expected_size in expected:
            if size != expected_size:
                raise RuntimeError(
                    f"Expect {requirement} but got {letter}={size} and {letter}={expected_size}."
                )
        pages = self.page_table[batch_idx].gather(1, (input_pos // self.page_size).to(int64))
        rows = (pages * self.page_size + input_pos % self.page_size).flatten()
        for cache, value in ((k_cache, k_val), (v_cache, v_val)):
            cache[:, :, rows] = value.transpose(0, 1).flatten(1, 2).unsqueeze(0)

    def convert_logical_block_mask(
        self, block_mask: BlockMask, batch_idx: Tensor | None = None, kv_len: Tensor | None = None
    ) -> BlockMask:
        """Convert a mask over the keys of sequences into a mask over the pages of the cache.

        Args:
            block_mask: The mask; its blocks have `page_size` keys.
            batch_idx: The sequence of each batch, of shape (B). Default: the first B sequences.
            kv_len: The number of keys of each sequence, of shape (B). Default: all keys that have pages.

        Raises:
            RuntimeError: The number of keys in a block differs from the page size.
        """
        if block_mask.BLOCK_SIZE[1] != self.page_size:
            raise RuntimeError(
                "Expect block_mask has the same column block size as page_size "
                f"but got size={block_mask.BLOCK_SIZE[1]} and size={self.page_size}"
            )
        batch = block_mask.kv_indices.shape[0]
        if batch_idx is None:
            batch_idx = _ops.arange(batch, device=block_mask.kv_num_blocks.device)
        full_counts, full_blocks = block_mask.full_kv_num_blocks, block_mask.full_kv_indices
        return BlockMask.from_kv_blocks(
            block_mask.kv_num_blocks.clone(),
            self._pages_of(block_mask.kv_indices, batch_idx),
            None if full_counts is None else full_counts.clone(),
            None if full_blocks is None else self._pages_of(full_blocks, batch_idx),
            block_mask.BLOCK_SIZE,
            self._physical(block_mask.mask_mod, kv_len, batch_idx),
            seq_lengths=(block_mask.seq_lengths[0], self.n_pages * self.page_size),
        )

    def _pages_of(self, blocks: Tensor, batch_idx: Tensor) -> Tensor:
        """Return the pages of blocks (B, H, rows, columns), padded to `n_pages` columns."""
        batch, heads, rows, columns = blocks.shape
        pages = self.page_table[batch_idx].gather(1, blocks.reshape(batch, -1).to(int64))
        wide = _ops.zeros((batch, heads, rows, self.n_pages), dtype=int32, device=blocks.device)
        wide[..., :columns] = pages.reshape(blocks.shape).to(int32)
        return wide

    def get_mask_mod(self, mask_mod: MaskMod | None, kv_len: Tensor | None = None) -> MaskMod:
        """Convert a mask function of logical keys into one of physical keys in the cache.

        The result is False for keys of other sequences and for keys from `kv_len` on.
        """
        return self._physical(noop_mask if mask_mod is None else mask_mod, kv_len, None)

    def _physical(self, mask_mod: MaskMod, kv_len: Tensor | None, batch_idx: Tensor | None) -> MaskMod:
        """`get_mask_mod` for batches that are the sequences `batch_idx`."""

        def physical_mask(b: Tensor, h: Tensor, q_idx: Tensor, physical_kv_idx: Tensor) -> Tensor:
            sequence = b if batch_idx is None else batch_idx[b]
            logical, is_valid = self._logical(sequence, physical_kv_idx)
            if kv_len is not None:
                is_valid = is_valid & (logical < kv_len[b])
            return _ops.where(is_valid, mask_mod(b, h, q_idx, logical), False)

        return physical_mask

    def get_score_mod(self, score_mod: ScoreMod | None, kv_len: Tensor | None = None) -> ScoreMod:
        """Convert a score function of logical keys into one of physical keys; other sequences' keys score -inf."""

        def physical_score(
            score: Tensor, b: Tensor, h: Tensor, q_idx: Tensor, physical_kv_idx: Tensor
        ) -> Tensor:
            logical, is_valid = self._logical(b, physical_kv_idx)
            if kv_len is not None:
                is_valid = is_valid & (logical < kv_len[b])
            changed = score if score_mod is None else score_mod(score, b, h, q_idx, logical)
            return _ops.where(is_valid, changed, float("-inf"))

        return physical_score

    def _logical(self, sequence: Tensor, physical: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logical index of a physical key in a sequence, and whether the sequence owns its page."""
        part = self.physical_to_logical[sequence, physical // self.page_size]
        return part * self.page_size + physical % self.page_size, part >= 0
