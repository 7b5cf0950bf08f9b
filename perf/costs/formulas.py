"""Costs of operators: a table of floating-point operations, and of operands that are only partly read.

An addition, a multiplication, a comparison and any function of an element (an exponential, a square root)
count as one operation each. A multiply-add counts as two. By default, a pointwise operator takes one
operation per element of its result, a reduction one per element that it reads, and any other operator none.
Every tensor is read and written once. Only work on floating-point and complex elements counts (a complex
operation as one).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ...dispatch.core.tags import Tag
from ...dispatch.tensor import Tensor


class Call(NamedTuple):
    """One call of an operator: its base name (without namespace, overload and a trailing ``_``), its arguments by name,
    its results, and its tags."""

    base: str
    arguments: Mapping[str, Any]
    results: Sequence[Tensor]
    tags: frozenset[Tag]

    def tensor(self, *names: str) -> Tensor:
        """Return the first tensor among arguments of these names."""
        return next(self.arguments[name] for name in names if isinstance(self.arguments.get(name), Tensor))


Formula = Callable[[Call], int]


def count(tensor: Tensor) -> int:
    """Return the number of elements of a tensor."""
    return math.prod(tensor.shape)


def product(left: str, right: str, added: str = "") -> Formula:
    """Count a matmul as 2 m n k, times the batch, plus one per element for an added tensor."""

    def formula(call: Call) -> int:
        first, second = call.arguments[left], call.arguments[right]
        depth = first.shape[-1]
        columns = second.shape[-1] if second.dim() > 1 else 1
        rows = math.prod(first.shape[:-1])
        operations = 2 * rows * columns * depth
        beta = call.arguments.get("beta", 1)
        return operations + (count(call.results[0]) if added and beta != 0 else 0)

    return formula


def grouped(call: Call) -> int:
    """2 m n k for each group; groups that share a side have it all between them."""
    first, second = call.arguments["self"], call.arguments["mat2"]
    if first.dim() == second.dim() == 2:
        return 2 * first.shape[0] * first.shape[1] * second.shape[1]
    return 2 * count(call.results[0]) * first.shape[-1]


def outer(call: Call) -> int:
    return count(call.results[0])


def convolution(call: Call) -> int:
    """Count a convolution: a dot product per element of the result, or for a transposed one per element of
    the input.
    """
    moved = call.arguments["input"] if call.arguments["transposed"] else call.results[0]
    bias = count(call.results[0]) if call.arguments["bias"] is not None else 0
    return 2 * _products(moved, call.arguments["weight"].shape) + bias


def _products(moved: Tensor, weight: Sequence[int]) -> int:
    # A filter is (out, in / groups, ...), transposed (in, out / groups, ...): each element of `moved` meets the rest.
    return count(moved) * math.prod(weight[1:])


def convolution_backward(call: Call) -> int:
    """Count the gradients: those of input and filter each cost one convolution; that of the bias is a sum."""
    grad = call.arguments["grad_output"]
    moved = call.arguments["input"] if call.arguments["transposed"] else grad
    products = 2 * _products(moved, call.arguments["weight"].shape)
    wants_input, wants_weight, wants_bias = call.arguments["output_mask"]
    return products * (wants_input + wants_weight) + (count(grad) if wants_bias else 0)


def convolution_backward_input(call: Call) -> int:
    return 2 * _products(call.arguments["grad_output"], call.arguments["weight"].shape)


def convolution_backward_weight(call: Call) -> int:
    return 2 * _products(call.arguments["grad_output"], call.arguments["weight_size"])


def convolution_backward_both(call: Call) -> int:
    return 4 * _products(call.arguments["grad_output"], call.arguments["weight"].shape)


def attention(products_of_keys: int, products_of_values: int) -> Formula:
    """Count attention: matmuls over the query-key pairs that the causal mask keeps, without softmax and
    scale.
    """

    def formula(call: Call) -> int:
        query, key, value = (call.arguments[name] for name in ("query", "key", "value"))
        queries, keys = query.shape[-2], key.shape[-2]
        pairs = queries * keys
        if call.arguments["is_causal"]:
            full = min(queries, keys)
            pairs = full * (full + 1) // 2 + (queries - full) * keys
        batch = math.prod(query.shape[:-2])
        width = products_of_keys * query.shape[-1] + products_of_values * value.shape[-1]
        return 2 * batch * pairs * width

    return formula


def per_element_of(number: int, *names: str) -> Formula:
    """So many operations for each element of the first tensor among these arguments."""
    return lambda call: number * count(call.tensor(*names))


def per_element_of_result(number: int) -> Formula:
    """So many operations for each element of the first result."""
    return lambda call: number * count(call.results[0])


def normalization(call: Call) -> int:
    """Sum; subtract, square, add; subtract and scale: six for each element, and one each for weight and bias."""
    present = sum(call.arguments.get(name) is not None for name in ("weight", "bias"))
    return (6 + present) * count(call.arguments["input"])


def batch_norm_with_statistics(call: Call) -> int:
    """Count as `normalization`; with running statistics, count only subtraction, scale, weight and bias."""
    training = call.arguments.get("training", False)
    present = sum(call.arguments.get(name) is not None for name in ("weight", "bias"))
    return ((6 if training else 2) + present) * count(call.arguments["input"])


def rms_norm(call: Call) -> int:
    """Square and add, scale; one for the weight."""
    return (3 + (call.arguments["weight"] is not None)) * count(call.arguments["input"])


def window(call: Call) -> int:
    """Count one operation for each element of the window, per element of the result."""
    result = call.results[0]
    dimensions = 3 if call.base.startswith(("max_pool3d", "avg_pool3d")) else 2
    size = call.arguments["kernel_size"]
    sizes = [size] * dimensions if isinstance(size, int) else list(size)
    return count(result) * math.prod(sizes * dimensions if len(sizes) == 1 else sizes)


def by_packed_weight(call: Call) -> int:
    """2 m n k, whatever the order of the weight."""
    return 2 * count(call.results[0]) * call.arguments["self"].shape[1]


def by_kept_elements(call: Call) -> int:
    """Count 2 m n k of the dense matmul, although half of its multiplications are by dropped elements."""
    return 4 * count(call.results[0]) * call.arguments["values"].shape[1]


def fourier(name: str) -> Formula:
    """5 N log2 N for each complex transform of N points, half of it for real ones (the radix-2 count)."""

    def formula(call: Call) -> int:
        real = call.base != "_fft_c2c"
        full = call.results[0] if call.base == "_fft_c2r" else call.arguments[name]
        points = math.prod(full.shape[dim] for dim in call.arguments["dim"])
        whole = 5 * count(full) * math.log2(points) if points > 1 else 0
        return round(whole / 2 if real else whole)

    return formula


def cubic(name: str, numerator: int, denominator: int) -> Formula:
    """Count a fraction of n^3 for each n by n matrix (Golub and Van Loan, "Matrix Computations")."""

    def formula(call: Call) -> int:
        matrix = call.arguments[name]
        n = matrix.shape[-1]
        return math.prod(matrix.shape[:-2]) * numerator * n**3 // denominator

    return formula


def solved(call: Call) -> int:
    """LU, 2/3 n^3, and two triangular solves, 2 n^2 for each right-hand side."""
    n = call.arguments["A"].shape[-1]
    return cubic("A", 2, 3)(call) + 2 * n * count(call.results[0])


def triangular(call: Call) -> int:
    """n^2 for each right-hand side."""
    return call.arguments["self"].shape[-1] * count(call.results[0])


def each_parameter(number: int) -> Formula:
    """So many operations for each element of all parameters."""
    return lambda call: number * sum(map(count, call.arguments["self"]))


OPERATIONS: dict[str, Formula] = {
    "mm": product("self", "mat2"),
    "bmm": product("self", "mat2"),
    "_scaled_mm": product("self", "mat2"),
    "_int_mm": product("self", "mat2"),
    **dict.fromkeys(
        ("_weight_int8pack_mm", "_weight_int4pack_mm", "_weight_int4pack_mm_for_cpu"), by_packed_weight
    ),
    "_semi_structured_mm": by_kept_elements,
    "_grouped_mm": grouped,
    "_scaled_grouped_mm": grouped,
    "addmm": product("mat1", "mat2", "self"),
    "_addmm_activation": product("mat1", "mat2", "self"),
    "baddbmm": product("batch1", "batch2", "self"),
    "addbmm": product("batch1", "batch2", "self"),
    "mv": product("self", "vec"),
    "addmv": product("mat", "vec", "self"),
    "dot": product("self", "tensor"),
    "vdot": product("self", "other"),
    "outer": outer,
    "convolution": convolution,
    "_convolution": convolution,
    "_convolution_backward_both": convolution_backward_both,
    "convolution_backward": convolution_backward,
    "convolution_backward_input": convolution_backward_input,
    "convolution_backward_weight": convolution_backward_weight,
    "_scaled_dot_product_efficient_attention": attention(1, 1),
    "_scaled_dot_product_flash_attention_for_cpu": attention(1, 1),
    "_scaled_dot_product_efficient_attention_backward": attention(3, 2),
    "_scaled_dot_product_flash_attention_for_cpu_backward": attention(3, 2),
    "native_layer_norm": normalization,
    "native_group_norm": normalization,
    "native_batch_norm": batch_norm_with_statistics,
    "_native_batch_norm_legit": batch_norm_with_statistics,
    "_native_batch_norm_legit_functional": batch_norm_with_statistics,
    "_native_batch_norm_legit_no_training": batch_norm_with_statistics,
    "_fused_rms_norm": rms_norm,
    # The normalised input again (2), grad * weight, two sums of products and terms (3), and the combination (4).
    "native_layer_norm_backward": per_element_of(10, "input"),
    "native_group_norm_backward": per_element_of(10, "input"),
    "native_batch_norm_backward": per_element_of(10, "input"),
    "_fused_rms_norm_backward": per_element_of(7, "input"),
    # Largest, subtract, exponential, sum, and divide or subtract the logarithm.
    "_softmax": per_element_of(5, "self"),
    "_log_softmax": per_element_of(5, "self"),
    "_softmax_backward_data": per_element_of(4, "output"),
    "_log_softmax_backward_data": per_element_of(4, "output"),
    "logsumexp": per_element_of(4, "self"),
    # Two passes: sum; subtract, square, add.
    "var": per_element_of(4, "self"),
    "std": per_element_of(4, "self"),
    "var_mean": per_element_of(4, "self"),
    "std_mean": per_element_of(4, "self"),
    "cumsum": per_element_of(1, "self"),
    "cumprod": per_element_of(1, "self"),
    "logcumsumexp": per_element_of(4, "self"),
    "cummax": per_element_of(1, "self"),
    "cummin": per_element_of(1, "self"),
    "mse_loss": per_element_of(3, "self"),
    "nll_loss_forward": per_element_of(1, "target"),
    "index_add": per_element_of(1, "source"),
    "scatter_add": per_element_of(1, "src"),
    "embedding_dense_backward": per_element_of(1, "grad_output"),
    "max_pool2d_with_indices": window,
    "max_pool3d_with_indices": window,
    "avg_pool2d": window,
    "avg_pool3d": window,
    "_adaptive_avg_pool2d": per_element_of(1, "self"),
    "_adaptive_avg_pool3d": per_element_of(1, "self"),
    "_fft_c2c": fourier("self"),
    "_fft_r2c": fourier("self"),
    "_fft_c2r": fourier("self"),
    "linalg_cholesky_ex": cubic("self", 1, 3),
    "linalg_lu_factor_ex": cubic("A", 2, 3),
    "linalg_inv_ex": cubic("A", 2, 1),
    "_linalg_solve_ex": solved,
    "linalg_solve_triangular": triangular,
    # Per fused multiply-and-add two: decay, momentum, step; of Adam two moments, correction, square root, division.
    "_fused_sgd": each_parameter(6),
    "_fused_adam": each_parameter(14),
    "_fused_adamw": each_parameter(14),
    # Pointwise in the table of operators, several operations in truth.
    "addcmul": per_element_of_result(3),
    "addcdiv": per_element_of_result(3),
    "lerp": per_element_of_result(3),
    "clamp": per_element_of_result(2),
}  # fmt: skip

# Arguments of which only the elements that an index picks are read: as many as the result has, or as the named one.
PICKED: dict[str, tuple[str, str]] = {
    "index_select": ("self", ""),
    "index": ("self", ""),
    "gather": ("self", ""),
    "take": ("self", ""),
    "embedding": ("weight", ""),
    # Written in place, only where the index says.
    "index_add_": ("self", "source"),
    "index_copy_": ("self", "source"),
    "_index_put_impl_": ("self", "values"),
    "index_put_": ("self", "values"),
    "scatter_": ("self", "index"),
    "scatter_add_": ("self", "src"),
    "put_": ("self", "source"),
}

# Operators in place whose first argument is written without being read.
OVERWRITING = frozenset({
    "copy_", "fill_", "zero_", "normal_", "uniform_", "log_normal_", "cauchy_", "exponential_", "geometric_", "random_",
    "bernoulli_", "_arange_", "_linspace_", "index_copy_", "scatter_", "put_",
})  # fmt: skip

# Operators that neither read nor write elements although they return no declared view.
FREE = frozenset({
    "empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided", "_unsafe_view",
    "detach_", "set_", "resize_", "resize_as_", "record_stream", "is_pinned", "is_set_to", "requires_grad_",
    "squeeze_", "unsqueeze_", "transpose_", "t_", "swapaxes_", "swapdims_", "as_strided_",
})  # fmt: skip

# Arguments that an operator is declared to write and does not (unless a scaler of gradients is given).
UNTOUCHED = {"_fused_sgd_": "grads", "_fused_adam_": "grads", "_fused_adamw_": "grads"}


def reads_shapes_alone(name: str) -> bool:
    """Return True if a factory function reads only the size, dtype and device of its operand.

    Example:
        >>> from triten.perf.costs.formulas import reads_shapes_alone
        >>> reads_shapes_alone("zeros_like"), reads_shapes_alone("new_full"), reads_shapes_alone("add")
        (True, True, False)
    """
    return name.endswith("_like") or name.startswith("new_")


def operations(call: Call) -> int:
    """Floating-point operations of a call."""
    tensors = [*_tensors(call.arguments.values()), *call.results]
    if not any(tensor.dtype.is_floating_point or tensor.dtype.is_complex for tensor in tensors):
        return 0
    formula = OPERATIONS.get(call.base)
    if formula is not None:
        return formula(call)
    if Tag.reduction in call.tags:
        return count(call.tensor(*call.arguments))
    if Tag.pointwise in call.tags and call.results:
        return count(call.results[0])
    return 0


def _tensors(values: Any) -> list[Tensor]:
    tensors: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            tensors.append(value)
        elif isinstance(value, tuple | list):
            tensors += _tensors(value)
    return tensors
