"""Planners of the fused attention operators, and the contract that every backend's kernels keep.

query (B, H, L, E), key (B, G, S, E), value (B, G, S, Ev), where G divides H and head h reads the keys of h // (H / G).
A score is scale * query . key, plus the mask if one is given: False means minus infinity, a number is added. The
default scale is 1 / sqrt(E). With `is_causal` query i sees the keys up to i (PyTorch's alignment at the top left).

- ``flash_attention_for_cpu_stub(out, logsumexp, query, key, value, mask, scale)``
- ``flash_attention_for_cpu_backward_stub(grad_query, grad_key, grad_value, grad, query, key, value, out, logsumexp,
  mask, scale)``
- ``efficient_attention_stub(out, logsumexp, seed, offset, query, key, value, mask, p, scale, philox_seed, first)``,
  with a `logsumexp` without elements if it is not requested
- ``efficient_attention_backward_stub(grad_query, grad_key, grad_value, grad, query, key, value, mask, out, logsumexp,
  seed, offset, p, scale)``, with None for gradients that are not requested

`out` (B, H, L, Ev) and the gradients lie in memory as `query`, `key` and `value` do, the last dimension inner;
`logsumexp` (B, H, L) is contiguous, float32 (float64 for float64), natural, and 0 for a row whose scores are all minus
infinity, which gives zeros. A NaN score makes its row NaN.

Dropout sets weights to zero after the softmax and multiplies the others by 1 / (1 - p). Consider the weight of row n =
(b H + h) L + l and key s. It is kept if the 32-bit random number of element 4 ceil(S / 4) n + s is below (1 - p) 2**32
(see `random`). These are the weights that `native_dropout` keeps of rows padded to whole counters. `seed` and `offset`,
0-d int64, say where the random numbers begin; both are 0 without dropout.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.generator import default_generator
from ....runtime.memory_format import contiguous_strides
from ....runtime.scalar_type import bfloat16, bool_, float16, float32, float64, int64
from ....runtime.tensor_spec import TensorSpec
from ...core.kernel_function import Plan
from ...core.operator_entry import OperatorEntry
from ...tensor import Tensor
from ..allocation import allocator_of
from ..stub import StructuredCall, find_kernel
from .linalg import check_same_device

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ....runtime.data_ptr import DataPtr

LARGEST_HEAD = 256
"""Largest head size of CUDA's fused operators; PyTorch's flash backend has the same bound."""
FUSED = {"cpu": (float32, float64, bfloat16, float16), "cuda": (float32, bfloat16, float16)}
FUSED["meta"] = FUSED["cpu"]


def check_attention(
    name: str,
    query: TensorSpec,
    key: TensorSpec,
    value: TensorSpec,
    mask: TensorSpec | None,
) -> None:
    """Refuse operands that the fused operators do not take."""
    if not query.ndim == key.ndim == value.ndim == 4:
        raise RuntimeError(f"{name}: Accept only 4 dims inputs shape of {{B, H, T, K}}")
    check_same_device(name, query, key, value, mask)
    for spec in (key, value):
        if spec.dtype is not query.dtype:
            raise RuntimeError(
                f"expected scalar type {query.dtype.scalar_name} but found {spec.dtype.scalar_name}"
            )
    allowed = FUSED.get(query.device.type, FUSED["cpu"])
    if query.dtype not in allowed:
        names = "FP32, FP64, BF16, FP16" if float64 in allowed else "FP32, BF16, FP16"
        raise RuntimeError(
            f"{name}: Expected data type in {names}, but got {query.dtype.scalar_name} instead."
        )
    batch, heads, _, width = query.sizes
    if key.sizes[3] != width:
        raise RuntimeError(f"{name}: Q/K should have the same head size, but got {width} and {key.sizes[3]}")
    if key.sizes[:3] != value.sizes[:3]:
        raise RuntimeError(
            f"{name}: expected key and value of as many batches, heads and positions, but got {list(key.sizes)} and "
            f"{list(value.sizes)}"
        )
    if key.sizes[0] != batch or not _divides(key.sizes[1], heads):
        raise RuntimeError(
            f"{name}: expected {batch} batches of key and value, and a number of heads that divides {heads}, but got "
            f"{list(key.sizes)}"
        )
    if query.device.type == "cuda" and max(width, value.sizes[3]) > LARGEST_HEAD:
        raise RuntimeError(
            f"{name}: expected heads of at most {LARGEST_HEAD}, but got {width} and {value.sizes[3]}"
        )
    if mask is None:
        return
    if mask.dtype not in (bool_, float32, query.dtype):
        raise RuntimeError(f"{name}: Attention mask is the same data type as query")
    scores_sizes = (*query.sizes[:3], key.sizes[2])
    lead = 4 - mask.ndim
    if lead < 0 or any(
        n not in (1, m) for n, m in zip(mask.sizes, scores_sizes[max(lead, 0) :], strict=True)
    ):
        raise RuntimeError(f"{name}: a mask of {list(mask.sizes)} does not broadcast to {list(scores_sizes)}")


def _divides(part: int, whole: int) -> bool:
    return part == whole or (part != 0 and whole % part == 0)


def laid_out_as(spec: TensorSpec, sizes: Sequence[int]) -> TensorSpec:
    """Return the spec of a gapless tensor of these sizes, with dimensions in `spec`'s order and the last one
    contiguous.
    """
    sizes = tuple(sizes)
    strides = list(contiguous_strides(sizes))
    if not spec.is_contiguous:
        step = max(sizes[-1], 1)
        for i in sorted(range(len(sizes) - 1), key=lambda i: (spec.strides[i], -i)):
            strides[i] = step
            step *= max(sizes[i], 1)
    return TensorSpec.of(sizes, tuple(strides), spec.dtype, spec.device)


def _kernel(
    name: str, stub: str, outputs: tuple[TensorSpec, ...], args: dict[str, Any], extra: dict[str, Any]
) -> Callable[..., Any]:
    if outputs[0].is_meta:
        return lambda *_: None
    device = outputs[0].device
    call = StructuredCall(name, args, tuple(args), outputs, None, device, extra)
    return find_kernel(stub, device.type, name)(call).into


def _specs(*values: Tensor | None) -> tuple[TensorSpec | None, ...]:
    return tuple([None if value is None else value._spec.detached for value in values])


def _statistics(query: TensorSpec) -> TensorSpec:
    dtype = float64 if query.dtype is float64 else float32
    return TensorSpec.contiguous(query.sizes[:3], dtype, query.device)


def _scale(width: int, scale: float | None) -> float:
    """Return the scale of a call, 1 / sqrt(width) by default. Heads without elements have a score of 0 at any scale."""
    return float(scale) if scale is not None else 1.0 / math.sqrt(width) if width else 1.0


def _data(value: Tensor | None) -> DataPtr | NDArray[Any] | None:
    return None if value is None else value._data


def flash_attention_for_cpu(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``(query, key, value, dropout_p, attn_mask, scale)``: (output, logsumexp)."""
    name = "scaled_dot_product_attention_flash_attention"
    query, key, value, mask = _specs(*args[:3], args[5])
    assert query is not None and key is not None and value is not None
    check_attention(name, query, key, value, mask)
    out, statistics = laid_out_as(query, (*query.sizes[:3], value.sizes[3])), _statistics(query)
    names = {"query": query, "key": key, "value": value, "attn_mask": mask, "scale": float}
    into = _kernel(
        op.schema.name.partition("::")[2],
        "flash_attention_for_cpu_stub",
        (out, statistics),
        names,
        {"is_causal": args[4]},
    )
    allocate, allocate_statistics, width = allocator_of(out), allocator_of(statistics), query.sizes[3]

    def plan(
        query: Tensor, key: Tensor, value: Tensor, dropout_p: float, mask: Tensor | None, scale: float | None
    ) -> tuple[Tensor, Tensor]:
        if dropout_p:
            raise RuntimeError(f"{name}: Currently do not support dropout > 0")
        data, logsumexp = allocate(), allocate_statistics()
        into(data, logsumexp, query._data, key._data, value._data, _data(mask), _scale(width, scale))
        return Tensor.from_data(data, out), Tensor.from_data(logsumexp, statistics)

    return plan


def flash_attention_for_cpu_backward(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``(grad_out, query, key, value, out, logsumexp, dropout_p, attn_mask, scale)``: three gradients."""
    name = "scaled_dot_product_attention_flash_attention_backward"
    grad, query, key, value, out, statistics, mask = _specs(*args[:6], args[8])
    assert grad is not None and query is not None and key is not None and value is not None
    check_attention(name, query, key, value, mask)
    check_gradient(name, grad, query, value, out, statistics)
    outputs = tuple([laid_out_as(spec, spec.sizes) for spec in (query, key, value)])
    names = {
        "grad_out": grad,
        "query": query,
        "key": key,
        "value": value,
        "out": out,
        "logsumexp": statistics,
        "attn_mask": mask,
        "scale": float,
    }
    into = _kernel(
        op.schema.name.partition("::")[2],
        "flash_attention_for_cpu_backward_stub",
        outputs,
        names,
        {"is_causal": args[7]},
    )
    allocators, width = [allocator_of(spec) for spec in outputs], query.sizes[3]

    def plan(*values: Any) -> tuple[Tensor, ...]:
        *tensors, dropout_p, mask, scale = values
        if dropout_p:
            raise RuntimeError(f"{name}: Currently do not support dropout > 0")
        made = [allocate() for allocate in allocators]
        into(*made, *[t._data for t in tensors], _data(mask), _scale(width, scale))
        return tuple([Tensor.from_data(data, spec) for data, spec in zip(made, outputs, strict=True)])

    return plan


def check_gradient(
    name: str,
    grad: TensorSpec,
    query: TensorSpec,
    value: TensorSpec,
    out: TensorSpec | None,
    statistics: TensorSpec | None,
) -> None:
    """Raise an error for a gradient, output or logsumexp that does not fit these operands."""
    expected = (*query.sizes[:3], value.sizes[3])
    check_same_device(name, query, grad, out, statistics)
    for argument, spec in (("grad_out", grad), ("out", out)):
        if spec is None or spec.sizes != expected or spec.dtype is not query.dtype:
            actual = None if spec is None else f"{spec.dtype} of {list(spec.sizes)}"
            raise RuntimeError(
                f"{name}: expected {argument} to be {query.dtype} of {list(expected)}, but got {actual}"
            )
    if statistics is not None and not statistics.dtype.is_floating_point:
        raise RuntimeError(
            f"{name}: expected logsumexp of a floating dtype, but got {statistics.dtype.scalar_name}"
        )
    if statistics is None or statistics.sizes != query.sizes[:3] or not statistics.is_contiguous:
        raise RuntimeError(
            f"{name}: expected logsumexp to be contiguous, of {list(query.sizes[:3])}, as the forward pass gives it, "
            f"but got {None if statistics is None else list(statistics.sizes)}"
        )


def _check_probability(p: float) -> None:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")


def efficient_attention(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``(query, key, value, attn_bias, dropout_p, scale)``: (output, log_sumexp, philox_seed, philox_offset)."""
    name = op.schema.name.partition("::")[2]
    query, key, value, bias = _specs(*args[:4])
    assert query is not None and key is not None and value is not None
    check_attention(name, query, key, value, bias)
    out, statistics = laid_out_as(query, (*query.sizes[:3], value.sizes[3])), _statistics(query)
    if not args[4]:
        statistics = TensorSpec.contiguous((*query.sizes[:2], 0), float32, query.device)
    number = TensorSpec.contiguous((), int64, query.device)
    outputs = (out, statistics, number, number)
    names = {
        "query": query,
        "key": key,
        "value": value,
        "attn_bias": bias,
        "dropout_p": float,
        "scale": float,
    }
    into = _kernel(name, "efficient_attention_stub", outputs, names, {"is_causal": args[6]})
    allocators = [allocator_of(spec) for spec in outputs]
    width, device = query.sizes[3], query.device
    counters = math.prod(query.sizes[:3]) * -(-key.sizes[2] // 4)

    def plan(
        query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, dropout_p: float, scale: Any
    ) -> tuple[Tensor, ...]:
        _check_probability(dropout_p)
        made = [allocate() for allocate in allocators]
        drops = dropout_p and counters and device.type != "meta"
        # As in `dropout`, a probability of one needs no random numbers.
        seed, first = default_generator(device).reserve(counters) if drops and dropout_p < 1 else (0, 0)
        into(
            *made,
            query._data,
            key._data,
            value._data,
            _data(bias),
            float(dropout_p) if drops else 0.0,
            _scale(width, scale),
            seed,
            first,
        )
        return tuple([Tensor.from_data(data, spec) for data, spec in zip(made, outputs, strict=True)])

    return plan


def efficient_attention_backward(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``(grad_out_, query, key, value, attn_bias, out, logsumexp, philox_seed, philox_offset, dropout_p, scale)``.

    Return the gradients that `grad_input_mask` asks for. PyTorch returns undefined tensors for the other gradients
    and for a missing mask; here they are tensors of sizes (0,).
    """
    name = op.schema.name.partition("::")[2]
    grad, query, key, value, bias, out, statistics, seed, offset = _specs(*args[:9])
    assert grad is not None and query is not None and key is not None and value is not None
    has_bias = bias is not None and bias.sizes != (0,)
    if not has_bias:
        bias = None
    check_attention(name, query, key, value, bias)
    check_gradient(name, grad, query, value, out, statistics)
    for argument, spec in (("philox_seed", seed), ("philox_offset", offset)):
        if spec is None or spec.ndim or spec.dtype is not int64 or spec.device is not query.device:
            raise RuntimeError(
                f"{name}: expected {argument} to be 0-d, int64, on {query.device}, but got {spec}"
            )
    grad_mask = args[10]
    if len(grad_mask) != 4:
        raise RuntimeError(f"{name}: expected grad_input_mask to have 4 elements, but got {list(grad_mask)}")
    if grad_mask[3]:
        raise NotImplementedError(
            f"{name}: the gradient of attn_bias is not implemented here; autograd computes it by ordinary operators"
        )
    specs = [laid_out_as(spec, spec.sizes) for spec in (query, key, value)]
    outputs = [spec if needed else None for spec, needed in zip(specs, grad_mask, strict=False)]
    names = {
        "grad_out_": grad,
        "query": query,
        "key": key,
        "value": value,
        "attn_bias": bias,
        "out": out,
        "logsumexp": statistics,
        "philox_seed": seed,
        "philox_offset": offset,
        "dropout_p": float,
        "scale": float,
    }
    extra = {"is_causal": args[11], "wanted": tuple(grad_mask[:3])}
    into = _kernel(name, "efficient_attention_backward_stub", tuple(specs), names, extra)
    allocators = [None if spec is None else allocator_of(spec) for spec in outputs]
    undefined = TensorSpec.contiguous((0,), query.dtype, query.device)
    allocate_nothing, width = allocator_of(undefined), query.sizes[3]

    def plan(*values: Any) -> tuple[Tensor, ...]:
        *tensors, dropout_p, scale = values
        _check_probability(dropout_p)
        made = [None if allocate is None else allocate() for allocate in allocators]
        data = [t._data for t in tensors]
        if not has_bias:
            data[4] = None
        into(*made, *data, float(dropout_p), _scale(width, scale))
        results = [
            Tensor.from_data(allocate_nothing(), undefined) if spec is None else Tensor.from_data(data, spec)
            for data, spec in zip((*made, None), (*outputs, None), strict=True)
        ]
        return tuple(results)

    return plan
