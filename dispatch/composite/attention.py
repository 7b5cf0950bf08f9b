"""`scaled_dot_product_attention`, its choice of backend, and attention composed of ordinary operators.

The numbers of the choice are those of `torch.nn.attention.SDPBackend`; which are permitted is the state of
`runtime/attention_backends.py`. CUDA has one fused operator, under the name and schema of PyTorch's memory-efficient
one, which takes masks too; the CPU has PyTorch's flash attention for it. Ordinary operators compute all other calls:
float64, a mask that requires grad, tangents, dropout on the CPU, heads over 256 on CUDA, and operands that broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...runtime.attention_backends import (
    EFFICIENT,
    ERROR,
    FLASH,
    MATH,
    is_reduced_math_allowed,
    permitted,
)
from ...runtime.device import CPU
from ...runtime.generator import MersenneGenerator, default_generator
from ...runtime.grad_mode import is_grad_enabled
from ...runtime.local_dispatch_key_set import modes
from ...runtime.scalar_type import bfloat16, bool_, float16, float32
from ..autograd.tangents import tangents_of
from ..core.kernel_function import Plan
from ..core.mode_stack import sees_whole
from ..core.operator_entry import OperatorEntry
from ..generated import functions as ops
from ..plans.delegated import plan_of_part
from ..plans.register import planned_by
from ..structured.meta.attention import LARGEST_HEAD
from ..structured.operand_checks import check_ranks
from .softmax import safe_softmax

if TYPE_CHECKING:
    from ...runtime.scalar_type import dtype as ScalarType
    from ..tensor import Tensor


def _validate(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, is_causal: bool
) -> None:
    """Raise RuntimeError for operands that PyTorch's `validate_sdpa_input` and its later checks reject."""
    dtypes = query.dtype, key.dtype, value.dtype
    if not dtypes[0] is dtypes[1] is dtypes[2]:
        names = [d.scalar_name.lower() for d in dtypes]
        raise RuntimeError(
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{names[0]} key.dtype: {names[1]} and value.dtype: {names[2]} instead."
        )
    devices = query.device, key.device, value.device
    if not devices[0] == devices[1] == devices[2]:
        raise RuntimeError(
            "Expected query, key, and value to have the same device type, but got query.device: "
            f"{devices[0]} key.device: {devices[1]} and value.device: {devices[2]} instead."
        )
    ranks = query.dim(), key.dim(), value.dim()
    if min(ranks) < 2:
        raise RuntimeError(
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{ranks[0]} key.dim: {ranks[1]} and value.dim: {ranks[2]} instead."
        )
    if mask is not None:
        if mask.dtype is not bool_ and mask.dtype is not float32 and mask.dtype is not query.dtype:
            raise RuntimeError(
                "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype: "
                f"{mask.dtype.scalar_name.lower()} and  query.dtype: {query.dtype.scalar_name.lower()} instead."
            )
        if is_causal:
            raise RuntimeError(
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
            )
    if not 0 <= dropout_p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p}")


def _needs_gradient(*tensors: Tensor) -> bool:
    return is_grad_enabled() and any(t is not None and t.requires_grad for t in tensors)


def _choice(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, enable_gqa: bool
) -> int:
    """Return the backend of a validated call: the first permitted backend that supports it."""
    on_cpu = query.device.type == "cpu"
    known = (FLASH, MATH) if on_cpu else permitted()
    enabled = [backend for backend in known if backend in permitted() and backend in (FLASH, EFFICIENT, MATH)]
    if not enabled:
        return ERROR
    fused = _is_fused(query, key, value, mask, dropout_p, enable_gqa)
    for backend in enabled:
        if backend == MATH:
            return MATH
        plain = on_cpu or _is_plain(query, mask)
        if fused and (backend == EFFICIENT or plain):
            return backend
    raise RuntimeError(f"No available kernel. {' ' if on_cpu else ''}Aborting execution.")


def takes_fused(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, enable_gqa: bool
) -> tuple[bool, bool]:
    """Return True if CUDA's fused operator supports these operands and represents flash attention for them."""
    if query.device.type != "cuda":
        return False, False
    fused = _is_fused(query, key, value, mask, dropout_p, enable_gqa)
    return fused, fused and _is_plain(query, mask)


def _is_plain(query: Tensor, mask: Tensor | None) -> bool:
    """Return True if PyTorch's CUDA flash attention supports the operands: 16-bit floats without a mask."""
    return mask is None and query.dtype is not float32


def _is_fused(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, enable_gqa: bool
) -> bool:
    """Return True if the device's fused operator supports these operands."""
    q, k, v = query._spec.sizes, key._spec.sizes, value._spec.sizes
    if not len(q) == len(k) == len(v) == 4 or q[0] != k[0] or k[:3] != v[:3] or q[3] != k[3]:
        return False
    if q[1] != k[1] and not (enable_gqa and k[1] and q[1] % k[1] == 0):
        return False
    dtype, device = query.dtype, query.device.type
    if dtype not in (float32, float16, bfloat16):
        return False
    if mask is not None and (_needs_gradient(mask) or not _broadcasts(mask._spec.sizes, (*q[:3], k[2]))):
        return False
    if any(t is not None and tangents_of(t) for t in (query, key, value, mask)):
        return False
    if device == "cpu":
        return not dropout_p
    if device == "cuda" or device == "meta":
        return bool(max(q[3], v[3]) <= LARGEST_HEAD)
    return False


def _broadcasts(sizes: tuple[int, ...], scores_sizes: tuple[int, ...]) -> bool:
    """Return True if a mask of these sizes broadcasts to the scores; PyTorch takes no mask of rank 0 or 1."""
    lead = len(scores_sizes) - len(sizes)
    return lead >= 0 and all(n in (1, m) for n, m in zip(sizes, scores_sizes[lead:], strict=True))


def _fused_sdp_choice(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> int:
    """Return the number of the backend that `scaled_dot_product_attention` selects for these operands."""
    _validate(query, key, value, attn_mask, dropout_p, is_causal)
    return _choice(query, key, value, attn_mask, dropout_p, enable_gqa)


def _plan_for_cpu(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    """Plan a call without dropout as the CPU's flash attention, if it is permitted and supports the operands."""
    query, key, value, mask, _, is_causal, scale, enable_gqa = args
    if query._spec.device is not CPU or op.runtime_positions(args) != [0, 1, 2, 3, 4, 6]:
        return None
    if mask is not None and mask._spec.requires_grad:
        return None
    _validate(query, key, value, mask, 0.0, is_causal)
    if not _is_fused(query, key, value, mask, 0.0, enable_gqa):
        return None
    part_args = (query, key, value, 0.0, is_causal, mask, scale)
    part = plan_of_part(op, key_set, args, "aten::_scaled_dot_product_flash_attention_for_cpu", part_args)
    if part is None:
        return None
    composed = op.rebind(scaled_dot_product_attention, args)

    def planned(
        query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout_p: float, scale: float | None
    ) -> Tensor:
        if dropout_p != 0 or FLASH not in permitted():
            return composed(query, key, value, mask, dropout_p, scale)  # type: ignore[no-any-return]
        return part(query, key, value, 0.0, mask, scale)[0]  # type: ignore[no-any-return]

    return planned


@planned_by(_plan_for_cpu)
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    """Compute `torch.nn.functional.scaled_dot_product_attention`."""
    _validate(query, key, value, attn_mask, dropout_p, is_causal)
    choice = _choice(query, key, value, attn_mask, dropout_p, enable_gqa)
    if choice == ERROR:
        raise RuntimeError(
            "No viable backend for scaled_dot_product_attention was found. This is likely due to turning off both the "
            "math kernel and the fused kernels."
        )
    if choice == FLASH and query.device.type == "cpu":
        if attn_mask is not None and attn_mask.dtype is bool_ and modes and sees_whole():
            attn_mask = _added_mask(attn_mask, query.dtype)
        return ops._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, is_causal, attn_mask=attn_mask, scale=scale
        )[0]
    if choice != MATH:
        # Inside a vmap, a tensor does not show whether an outer level needs its gradient.
        saves = is_grad_enabled()
        return ops._scaled_dot_product_efficient_attention(
            query, key, value, attn_mask, saves, dropout_p, is_causal, scale=scale
        )[0]
    return ops._scaled_dot_product_attention_math(
        query, key, value, attn_mask, dropout_p, is_causal, None, scale=scale, enable_gqa=enable_gqa
    )[0]


def _added_mask(mask: Tensor, dtype: ScalarType) -> Tensor:
    """Return the numbers to add to the scores for a mask of bools: minus infinity where it is False."""
    visible, hidden = (ops.scalar_tensor(x, dtype=dtype, device=mask.device) for x in (0.0, -math.inf))
    return ops.where(mask, visible, hidden)


def _scaled_dot_product_attention_math(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    dropout_mask: Tensor | None,
    scale: float | None,
    enable_gqa: bool,
) -> tuple[Tensor, Tensor]:
    """Compute attention by matmuls and a softmax, and the weights after dropout.

    16-bit floats are computed in float32 unless `runtime.attention_backends.allow_reduced_math` permits them. A row
    whose scores are all minus infinity has weights of zero.
    """
    for name, operand in (("query", query), ("key", key), ("value", value)):
        check_ranks("_scaled_dot_product_attention_math", name, operand._spec, *range(2, 65))
    dtype = query.dtype
    if (dtype is float16 or dtype is bfloat16) and not is_reduced_math_allowed():
        query, key, value = (t.to(float32) for t in (query, key, value))
        if attn_mask is not None and attn_mask.dtype is not bool_:
            attn_mask = attn_mask.to(float32)
    if enable_gqa:
        key, value = _heads_repeated(query, key, value)
    width = query.shape[-1]
    scale = (1.0 / math.sqrt(width) if width else 1.0) if scale is None else scale
    root = math.sqrt(abs(scale))
    # Each operand is multiplied by the root of the scale, so that neither overflows before scaling.
    scores = ops.matmul(query * math.copysign(root, scale), key.transpose(-2, -1) * root)
    if is_causal:
        if attn_mask is not None:
            raise RuntimeError(
                "_scaled_dot_product_attention: Explicit attn_mask should not be set when is_causal=True"
            )
        sizes = (query.shape[-2], key.shape[-2])
        attn_mask = ops.tril(query.new_ones(sizes, dtype=bool_))
    if attn_mask is None:
        weights = ops.softmax(scores, -1)
    else:
        weights = _masked_softmax(scores, attn_mask)
    if dropout_p:
        weights = _dropped(weights, dropout_p, dropout_mask)
    return ops.matmul(weights, value).to(dtype), weights.to(dtype)


def _heads_repeated(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Return keys and values with as many heads as the queries, each head repeated in place."""
    heads = query.size(-3)
    for t in (key, value):
        if t.size(-3) == 0 or heads % t.size(-3):
            raise RuntimeError("Number of heads in key and value must divide the number of heads in ")
    return _repeated(key, heads // key.size(-3)), _repeated(value, heads // value.size(-3))


def _repeated(tensor: Tensor, times: int) -> Tensor:
    *lead, heads, length, width = tensor.shape
    return (
        tensor.unsqueeze(-3)
        .expand(*lead, heads, times, length, width)
        .reshape(*lead, heads * times, length, width)
    )


def _masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    if mask.dtype is bool_:
        scores = ops.masked_fill(scores, ops.logical_not(mask), -math.inf)
    else:
        scores = scores + mask
    return safe_softmax(scores, -1, None)


def _dropped(weights: Tensor, dropout_p: float, mask: Any) -> Tensor:
    """Return the weights after dropout, with the random numbers of the fused operators: whole counters for each row.

    A Mersenne Twister has no counters, and generates numbers for the weights alone.
    """
    if mask is not None:
        scale = math.inf if dropout_p == 1.0 else 1.0 / (1.0 - dropout_p)
        return ops.masked_fill(weights, ops.logical_not(mask), 0.0) * scale
    keys = weights.shape[-1]
    if keys % 4 == 0 or isinstance(default_generator(weights.device), MersenneGenerator):
        return ops.dropout(weights, dropout_p, True)
    whole = ops.cat([weights, weights.new_zeros((*weights.shape[:-1], -keys % 4))], -1)
    dropped: Tensor = ops.dropout(whole, dropout_p, True)[..., :keys]
    return dropped
