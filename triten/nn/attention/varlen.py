"""Attention in sequences of different lengths that lie one after another (`torch.nn.attention.varlen`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ...autograd import no_grad
from ...dispatch.generated import functions as _ops
from ...runtime.grad_mode import is_grad_enabled
from ...runtime.scalar_type import bfloat16, float16, int32

if TYPE_CHECKING:
    from ...dispatch.tensor import Tensor

__all__ = ["AuxRequest", "varlen_attn", "varlen_attn_out"]


class AuxRequest(NamedTuple):
    """Request for extra outputs of `varlen_attn` (`torch.nn.attention.varlen.AuxRequest`).

    Args:
        lse: If True, return the log-sum-exp of each query's scores.
    """

    lse: bool = False


def varlen_attn(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute attention within each sequence of a packed batch (`torch.nn.attention.varlen.varlen_attn`).

    The operands are float16 or bfloat16, as in PyTorch, whose kernels are CUDA-only. On a GPU one launch serves all
    sequences. The kernel reads bounds and pages on the device, so the host never synchronizes. It skips tiles of
    scores outside the window. Page sizes that are multiples of 64 are fastest.

    Args:
        query: The queries of shape (T_q, H_q, D), sequences concatenated.
        key, value: The keys and values of shape (T_k, H_kv, D); with `block_table` (pages, page size, H_kv, D).
        cu_seq_q, cu_seq_k: where each sequence begins, 0 first, and where the last one ends: int32 of shape (N + 1,).
            With a `block_table` `cu_seq_k` is not looked at.
        max_q, max_k: the greatest lengths, which kernels do not need.
        return_aux: The extra outputs to return. Default: None.
        scale: if None ``1 / sqrt(D)``.
        window_size: how many keys before and after its own place a query attends to, -1 for all: (-1, 0) is causal. The
            last query's place is that of the last key.
        enable_gqa: If True, H_q may be a multiple of H_kv. Default: False.
        seqused_k: The number of used keys of each sequence, int32 of shape (N,). Without gradients.
        block_table: the pages in which the keys of each sequence lie, int32 of shape (N, pages of a sequence). It needs
            `seqused_k`. Entries of keys that no query sees may be anything. Without gradients.
        num_splits: 1 keeps the keys of a sequence in one piece, so that its result does not depend on the other
            sequences of the batch. Other numbers and None leave the split of few queries to the kernel. Default: None.

    Returns:
        The output (T_q, H_q, D), with ``AuxRequest(lse=True)`` also the sums (H_q, T_q) in float32. A query without a
        key gives zeros.

    Raises:
        ValueError: for numbers of heads that do not belong together, and a window of other than two numbers.
        RuntimeError: for other dtypes, shapes that do not belong together, bounds that descend or that lie outside and
            pages that there are not (which a kernel on a GPU reports later, without reaching them), for `seqused_k` or
            `block_table` where gradients are wanted, a `block_table` without `seqused_k`, and without `cu_seq_k` or
            `block_table`.

    Example:
        >>> import triten as tt
        >>> from triten.nn.attention.varlen import varlen_attn
        >>> x = tt.tensor([1.0, 3.0, 10.0], dtype=tt.float16, device="cuda").reshape(3, 1, 1)
        >>> starts = tt.tensor([0, 2, 3], dtype=tt.int32, device="cuda")
        >>> varlen_attn(tt.zeros_like(x), x, x, starts, starts, 2, 2).flatten().tolist()
        [2.0, 2.0, 10.0]
    """
    heads, kv_heads = query.size(1), key.size(1 if block_table is None else 2)
    if heads != kv_heads and not enable_gqa:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got Hq={heads} and Hkv={kv_heads}. "
            "Try setting enable_gqa=True for GQA."
        )
    if heads % kv_heads:
        raise ValueError(
            "Expect number of query heads to be a multiple of kv heads for GQA "
            f"but got Hq={heads} and Hkv={kv_heads}."
        )
    if len(window_size) != 2:
        raise ValueError(f"window_size must have length 2, got {len(window_size)}")
    _check(query, key, value, cu_seq_q, cu_seq_k, seqused_k, block_table)
    wants_sums = return_aux is not None and return_aux.lse
    left, right = window_size
    output, sums = _ops._varlen_attn(
        query,
        key,
        value,
        cu_seq_q,
        cu_seq_k if block_table is None else None,
        left,
        right,
        scale=scale,
        seqused_k=seqused_k,
        block_table=block_table,
        num_splits=num_splits,
    )
    return (output, sums) if wants_sums else output


def varlen_attn_out(
    out: Tensor,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    max_q: int,
    max_k: int,
    *,
    return_aux: AuxRequest | None = None,
    scale: float | None = None,
    window_size: tuple[int, int] = (-1, -1),
    enable_gqa: bool = False,
    seqused_k: Tensor | None = None,
    block_table: Tensor | None = None,
    num_splits: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute `varlen_attn` into `out`, without gradients (`torch.nn.attention.varlen.varlen_attn_out`).

    Raises:
        RuntimeError: `out` differs from `query` in shape or dtype, an operand requires grad, or `varlen_attn` raises
            the error.
    """
    if out.shape != query.shape or out.dtype is not query.dtype:
        raise RuntimeError(
            f"varlen_attn_out: expected out of the shape {tuple(query.shape)} and {query.dtype}, as query, but got "
            f"{tuple(out.shape)} and {out.dtype}"
        )
    if _wants_gradients(query, key, value):
        raise RuntimeError(
            "varlen_attn_out: query, key and value must not require grad; varlen_attn has gradients"
        )
    with no_grad():
        result = varlen_attn(
            query,
            key,
            value,
            cu_seq_q,
            cu_seq_k,
            max_q,
            max_k,
            return_aux=return_aux,
            scale=scale,
            window_size=window_size,
            enable_gqa=enable_gqa,
            seqused_k=seqused_k,
            block_table=block_table,
            num_splits=num_splits,
        )
        if isinstance(result, tuple):
            return out.copy_(result[0]), result[1]
        return out.copy_(result)


def _wants_gradients(*tensors: Tensor) -> bool:
    return is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _check(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cu_seq_q: Tensor,
    cu_seq_k: Tensor | None,
    seqused_k: Tensor | None,
    block_table: Tensor | None,
) -> None:
    """Raise an error for operands that PyTorch's kernels refuse."""
    dtypes = query.dtype, key.dtype, value.dtype
    if query.dtype not in (float16, bfloat16) or len(set(dtypes)) > 1:
        names = ", ".join(map(str, dtypes))
        raise RuntimeError(
            f"varlen_attn: expected query, key and value in float16 or in bfloat16, as FlashAttention only supports "
            f"fp16 and bf16 data type, got {names}"
        )
    for name, starts in (("cu_seq_q", cu_seq_q), ("cu_seq_k", cu_seq_k), ("seqused_k", seqused_k)):
        if starts is not None and starts.dtype is not int32:
            raise RuntimeError(f"varlen_attn: {name} must have dtype int32, got {starts.dtype}")
    for name, extra in (("seqused_k", seqused_k), ("block_table", block_table)):
        if extra is not None and _wants_gradients(query, key, value):
            raise RuntimeError(
                f"varlen_attn: {name} is an inference-only parameter, but an operand requires grad"
            )
