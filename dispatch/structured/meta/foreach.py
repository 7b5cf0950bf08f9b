"""Planners of operators over lists of tensors, which a CUDA device computes together, in one launch per dtype.

A row is one entry of each list. Rows of one float dtype are computed together if their tensors have the same sizes and
strides and memory without gaps. Other rows, and rows on other devices, are computed one by one. In both cases a row's
values are bitwise identical to the operator's for single tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ....runtime.device import device as Device
from ....runtime.scalar_type import bfloat16, float16, float32, float64
from ....runtime.tensor_spec import TensorSpec
from ...core.kernel_function import Plan
from ...core.operator_entry import OperatorEntry
from ...core.overload_packet import packets
from ...iterator.type_promotion import promote_types
from ...tensor import blank_tensor
from ..allocation import allocator_of
from ..stub import StructuredCall, find_kernel
from .linalg import check_same_device

if TYPE_CHECKING:
    from ...tensor import Tensor

FLOATS = (float32, float64, float16, bfloat16)

TOGETHER = frozenset(
    {
        *(
            "abs",
            "ceil",
            "exp",
            "floor",
            "log",
            "neg",
            "reciprocal",
            "round",
            "rsqrt",
            "sigmoid",
            "sign",
            "sqrt",
        ),
        *("tanh", "trunc"),
        *("add", "sub", "mul", "div", "clamp_max", "clamp_min", "clamp_within", "maximum", "minimum"),
        *("addcdiv", "addcmul", "lerp"),
        *("copy", "fill"),
    }
)
"""Operators with multi-tensor kernels. `maximum` and `minimum` accept only tensors; `clamp_within` accepts a number n,
and clamps to [-n, n].
"""

Specs = tuple[TensorSpec, ...]


def specs_of(tensors: Sequence[Any]) -> Specs:
    """Return the specs, without requires-grad."""
    return tuple([tensor._spec.detached for tensor in tensors])


def data_of(tensors: Sequence[Any]) -> list[Any]:
    """Return the bytes of each tensor."""
    return [tensor._data for tensor in tensors]


def steps_of(spec: TensorSpec) -> list[int]:
    """Return the strides of dimensions that have more than one element."""
    if spec.numel == 0:
        return []
    return [stride for size, stride in zip(spec.sizes, spec.strides, strict=True) if size != 1]


def goes_together(row: Sequence[TensorSpec], element: TensorSpec | None) -> bool:
    """Return True if a row's tensors have the same layout, so that one index serves all of them."""
    first = row[0]
    if first.dtype not in FLOATS or not first.is_dense():
        return False
    if element is not None and first.ndim == 0 and element.dtype is not first.dtype:
        return False  # A one-element tensor takes part in type promotion with 0-d tensors.
    return all(
        spec.dtype is first.dtype and spec.sizes == first.sizes and steps_of(spec) == steps_of(first)
        for spec in row[1:]
    )


def _check(name: str, operator: str, lists: Sequence[Specs], element: TensorSpec | None) -> Device:
    if operator not in TOGETHER:
        raise NotImplementedError(
            f"{name}(): argument 'operator': expected one of {', '.join(sorted(TOGETHER))}, got {operator!r}"
        )
    tensors = lists[0]
    if not tensors:
        raise RuntimeError(f"{name}(): Tensor list must have at least one tensor.")
    for each in lists[1:]:
        if len(each) != len(tensors):
            raise RuntimeError(
                f"{name}(): Tensor lists must have the same number of tensors, got {len(tensors)} and {len(each)}"
            )
    for specs in lists:
        for spec in specs:
            check_same_device(name, tensors[0], spec)
    if element is not None:
        check_same_device(name, tensors[0], element)
        if element.numel != 1 or element.dtype not in FLOATS:
            raise RuntimeError(
                f"{name}(): argument 'element': expected a floating tensor of one element, got "
                f"{element.dtype.scalar_name} of sizes {list(element.sizes)}"
            )
    return tensors[0].device


def one_by_one(operator: str, in_place: bool) -> Callable[..., Any]:
    """Return the operator for a row, called with its tensors, then the number or None."""
    packet = packets.get(f"{operator}_" if in_place else operator)

    def call(tensor: Any, rest: Sequence[Any], last: Any) -> Any:
        operands = [*rest] if last is None else [*rest, last]
        if operator in ("copy", "fill"):
            return (tensor.copy_ if operator == "copy" else tensor.fill_)(*operands)
        if operator == "clamp_within":
            return packets["clamp_" if in_place else "clamp"].call(tensor, -last, last)
        if operator in ("maximum", "minimum"):  # no in-place form
            made = packets[operator].call(tensor, *operands)
            return tensor.copy_(made) if in_place else made
        assert packet is not None
        if operator in SCALES and len(operands) > SCALES[operator][0]:
            *operands, scale = operands
            return packet.call(tensor, *operands, **{SCALES[operator][1]: scale})
        return packet.call(tensor, *operands)

    return call


SCALES = {"add": (1, "alpha"), "sub": (1, "alpha"), "addcdiv": (2, "value"), "addcmul": (2, "value")}
"""Operators whose last number, after this many operands, has a name."""


def _planner(name: str, in_place: bool) -> Callable[[OperatorEntry, int, Sequence[Any]], Plan]:
    def planner(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
        operator = args[1]
        lists = [specs_of(tensors) for tensors in (args[0], args[2], args[3]) if tensors]
        element = None if args[5] is None else args[5]._spec.detached
        device = _check(name, operator, lists, element)
        rows, is_cuda = list(zip(*lists, strict=True)), device.type == "cuda"
        able = [
            index
            for index, row in enumerate(rows)
            if is_cuda and goes_together(row, element) and not (in_place and row[0].read_only)
        ]
        apart = sorted(set(range(len(rows))) - set(able))
        call = StructuredCall(
            name,
            {"lists": tuple([tuple([each[i] for i in able]) for each in lists]), "element": element},
            ("lists", "number", "element"),
            (),
            None,
            device,
            {"operator": operator, "in_place": in_place},
        )
        into = find_kernel("multi_tensor_pointwise_stub", device.type, name)(call).into if able else None
        single = one_by_one(operator, in_place)
        results = [plain(lists[0][index]) for index in able]
        allocators = [allocator_of(spec) for spec in results]

        def plan_(
            self: Sequence[Tensor],
            seconds: Sequence[Tensor],
            thirds: Sequence[Tensor],
            number: float | None,
            element: Tensor | None,
        ) -> None:
            tensor_lists = [each for each in (self, seconds, thirds) if each]
            last = number if element is None else element
            whole: Sequence[int] = apart
            if into is not None:
                operands = [[each[i]._data for i in able] for each in tensor_lists]
                if into(operands, number if element is None else element._data):
                    for i in able:
                        self[i].bump_version()
                else:
                    whole = [*range(len(self))]
            for i in whole:
                single(self[i], [each[i] for each in tensor_lists[1:]], last)

        def plan(
            self: Sequence[Tensor],
            seconds: Sequence[Tensor],
            thirds: Sequence[Tensor],
            number: float | None,
            element: Tensor | None,
        ) -> list[Any]:
            tensor_lists = [each for each in (self, seconds, thirds) if each]
            made: list[Any] = [None] * len(self)
            if into is not None:
                written = [allocate() for allocate in allocators]
                operands = [written, *([each[i]._data for i in able] for each in tensor_lists)]
                into(operands, number if element is None else element._data)
                for i, data, spec in zip(able, written, results, strict=True):
                    made[i] = wrapped(data, spec)
            for i in apart:
                made[i] = single(
                    self[i], [each[i] for each in tensor_lists[1:]], number if element is None else element
                )
            return made

        return plan_ if in_place else plan

    return planner


def plain(spec: TensorSpec) -> TensorSpec:
    """Return the spec of a result with a tensor's layout."""
    if spec.is_contiguous:
        return TensorSpec.contiguous(spec.sizes, spec.dtype, spec.device)
    return TensorSpec.of(spec.sizes, spec.strides, spec.dtype, spec.device)


def wrapped(data: Any, spec: TensorSpec) -> Any:
    """Return a new tensor over bytes."""
    out = blank_tensor()
    out._data, out._spec = data, spec
    out._version_cell = out._autograd = out._view_base = None
    return out


pointwise_ = _planner("_multi_tensor_pointwise_", True)
"""Planner of ``_multi_tensor_pointwise_(self, operator, others, thirds, number, element)``."""

pointwise = _planner("_multi_tensor_pointwise", False)
"""Planner of ``_multi_tensor_pointwise``, with the same arguments."""

ORDERS = {1.0: "1", 2.0: "2", math.inf: "inf", -math.inf: "-inf"}
"""Orders of norms that are combined from partial results, with their names."""


def has_norm(spec: TensorSpec) -> bool:
    """Return True if a multi-tensor kernel computes a tensor's norm."""
    return spec.device.type == "cuda" and spec.dtype in FLOATS and spec.is_dense() and spec.numel > 0


MAX_HOST_NUMEL = 1 << 16
"""Elements of a tensor up to which one thread computes its norm as quickly as several."""


def has_host_norm(spec: TensorSpec, ord: str) -> bool:
    """Return True if one call on the CPU computes this norm of a tensor, together with those of others."""
    is_plain = spec.device.type == "cpu" and spec.dtype.name in ("float32", "float64")
    return is_plain and ord == "2" and spec.is_contiguous and 0 < spec.numel <= MAX_HOST_NUMEL


def _check_order(name: str, ord: str, tensors: Specs) -> float:
    if not tensors:
        raise RuntimeError(f"{name}(): Tensor list must have at least one tensor.")
    for spec in tensors:
        check_same_device(name, tensors[0], spec)
    for number, spelling in ORDERS.items():
        if spelling == ord:
            return number
    raise RuntimeError(f"{name}(): argument 'ord': expected one of {', '.join(ORDERS.values())}, got {ord!r}")


def norm(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``_multi_tensor_norm(self, ord)``: `linalg_vector_norm` of each tensor."""
    name, tensors = "_multi_tensor_norm", specs_of(args[0])
    order = _check_order(name, args[1], tensors)
    single = packets["linalg_vector_norm"]
    able = [index for index, spec in enumerate(tensors) if has_norm(spec) or has_host_norm(spec, args[1])]
    results = [TensorSpec.contiguous((), tensors[index].dtype, tensors[index].device) for index in able]
    allocators = [allocator_of(spec) for spec in results]
    into = None
    if able:
        call = StructuredCall(
            name,
            {"self": tuple([tensors[index] for index in able])},
            ("self",),
            tuple(results),
            None,
            tensors[0].device,
            {"ord": args[1]},
        )
        into = find_kernel("multi_tensor_norm_stub", tensors[0].device.type, name)(call).into
    apart = sorted(set(range(len(tensors))) - set(able))

    def plan(self: Sequence[Tensor]) -> list[Any]:
        made: list[Any] = [None] * len(self)
        if into is not None:
            written = [allocate() for allocate in allocators]
            into([self[index]._data for index in able], written)
            for index, data, spec in zip(able, written, results, strict=True):
                made[index] = wrapped(data, spec)
        for index in apart:
            made[index] = single.call(self[index], order)
        return made

    return plan


def total_norm(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan ``_multi_tensor_total_norm(self, ord, max_norm)``: the norm of all elements, and the clipping factor.

    On CUDA the elements' own sums are added up, in the type of the arithmetic. Elsewhere, and where a tensor has gaps
    or no elements, it is the norm of the tensors' norms, each rounded to its dtype.
    """
    name, tensors = "_multi_tensor_total_norm", specs_of(args[0])
    order = _check_order(name, args[1], tensors)
    if not all(map(has_norm, tensors)):
        return lambda self, max_norm: _composed_total(self, order, max_norm)
    dtype = tensors[0].dtype
    for spec in tensors[1:]:
        dtype = promote_types(dtype, spec.dtype)
    result = TensorSpec.contiguous((), dtype, tensors[0].device)
    call = StructuredCall(
        name, {"self": tensors}, ("self",), (result, result), None, tensors[0].device, {"ord": args[1]}
    )
    into, allocate = (
        find_kernel("multi_tensor_total_norm_stub", "cuda", name)(call).into,
        allocator_of(result),
    )

    def plan(self: Sequence[Tensor], max_norm: float) -> tuple[Any, Any]:
        total, coefficient = allocate(), allocate()
        into([tensor._data for tensor in self], total, coefficient, float(max_norm))
        return wrapped(total, result), wrapped(coefficient, result)

    return plan


def _composed_total(tensors: Sequence[Tensor], order: float, max_norm: float) -> tuple[Any, Any]:
    norms = [packets["linalg_vector_norm"].call(tensor, order) for tensor in tensors]
    total = packets["linalg_vector_norm"].call(packets["stack"].call(norms), order)
    return total, (float(max_norm) / (total + 1e-6)).clamp(max=1.0)
