"""Matmuls of tensors of any rank, composed of matmuls and matrix-vector products (ATen/native/LinearAlgebra.cpp)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...runtime.grad_mode import is_grad_enabled
from ...runtime.local_dispatch_key_set import effective, modes
from ..core.dispatcher import Dispatcher
from ..core.kernel_function import Plan
from ..core.operator_entry import OperatorEntry
from ..generated.functions import _unsafe_view, addmm, bmm, dot, mm, mv
from ..iterator.broadcast import infer_size
from ..plans.host_kernel import HostPlanner
from ..plans.register import planned_by
from ..structured.meta_base import out_on_another_device
from ..structured.resizing import resize_output
from ..tensor import Tensor
from .forms import check_overlap, out_form, write_out

_plan_stacks = HostPlanner("matmul", "mm", "bmm")
_plan_rows = HostPlanner("linear", "mm", "addmm", "matmul", "add.Tensor")


def plan_matmul(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan | None:
    """Plan the matmul of two matrices as `mm`, so that ``a @ b`` costs the same; batches have a host kernel."""
    if args[0]._spec.ndim == 2 and args[1]._spec.ndim == 2:
        return Dispatcher.singleton().find_schema_or_throw("aten::mm").plan(key_set, args)
    return _plan_stacks(op, key_set, args)


@planned_by(plan_matmul)
def matmul(self: Tensor, other: Tensor) -> Tensor:
    """Compute `torch.matmul`: a dot, matrix-vector, vector-matrix, folded or batched matmul, by rank."""
    a, b = self._spec.ndim, other._spec.ndim
    if a == 0 or b == 0:
        raise RuntimeError(f"both arguments to matmul need to be at least 1D, but they are {a}D and {b}D")
    if a == 2 and b == 2:
        return mm(self, other)
    if a == 1 and b == 1:
        return dot(self, other)
    if a == 2 and b == 1:
        return mv(self, other)
    if a == 1 and b == 2:
        return _unsafe_view(mm(self.unsqueeze(0), other), (other._spec.sizes[1],))
    if b <= 2:
        return _folded(self, other)
    return _batched(self, other)


def _folded(self: Tensor, other: Tensor) -> Tensor:
    """Multiply a stack of matrices by one matrix or vector, as one matmul of all rows."""
    sizes = self._spec.sizes
    rows = self.reshape((_product(sizes[:-1]), sizes[-1]))
    if other._spec.ndim == 1:
        return _unsafe_view(mv(rows, other), sizes[:-1])
    return _unsafe_view(mm(rows, other), (*sizes[:-1], other._spec.sizes[1]))


def _batched(self: Tensor, other: Tensor) -> Tensor:
    """Multiply each member of the broadcast batch; vectors become matrices for the call."""
    left = self.unsqueeze(0) if self._spec.ndim == 1 else self
    right = other.unsqueeze(1) if other._spec.ndim == 1 else other
    n, m = left._spec.sizes[-2:]
    k, p = right._spec.sizes[-2:]
    batch = infer_size(left._spec.sizes[:-2], right._spec.sizes[:-2])
    tail = (() if self._spec.ndim == 1 else (n,)) + (() if other._spec.ndim == 1 else (p,))
    # Each no-op view would add a graph node. A trace has them, like PyTorch's.
    expands = bool(modes) or not left._spec.sizes[:-2] == batch == right._spec.sizes[:-2]
    if not expands and len(batch) == 1 and len(tail) == 2:
        return bmm(left, right)
    count = _product(batch)
    first = (left.expand((*batch, n, m)) if expands else left).reshape((count, n, m))
    second = (right.expand((*batch, k, p)) if expands else right).reshape((count, k, p))
    return _unsafe_view(bmm(first, second), (*batch, *tail))


def _product(sizes: Sequence[int]) -> int:
    count = 1
    for n in sizes:
        count *= n
    return count


def matmul_out(self: Tensor, other: Tensor, out: Tensor) -> Tensor:
    """Run ``matmul(out=)``."""
    if self._spec.ndim == 2 and other._spec.ndim == 2:
        return mm(self, other, out=out)
    check_overlap((self, other), (out,))
    return _into("matmul", matmul(self, other), out)


def outer(self: Tensor, vec2: Tensor) -> Tensor:
    """Compute `torch.outer`: the products of all pairs of elements of two vectors."""
    for name, vector in (("self", self), ("vec2", vec2)):
        if vector._spec.ndim != 1:
            raise RuntimeError(f"outer: Expected 1-D argument {name}, but got {vector._spec.ndim}-D")
    return self.reshape((self._spec.sizes[0], 1)) * vec2


def outer_out(self: Tensor, vec2: Tensor, out: Tensor) -> Tensor:
    """Run ``outer(out=)``."""
    check_overlap((self, vec2), (out,))
    return write_out("outer", out, outer(self, vec2))


def _into(name: str, result: Tensor, out: Tensor) -> Tensor:
    """Write a composite's result to the given ``out=`` tensor."""
    if is_grad_enabled() and (result._spec.requires_grad or out._spec.requires_grad):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    if out._spec.dtype is not result._spec.dtype:
        raise RuntimeError(f"Expected out tensor to have dtype {result.dtype}, but got {out.dtype} instead")
    if out._spec.device is not result._spec.device:
        raise out_on_another_device(name, result._spec.device, out._spec.device)
    resize_output(out, result._spec.sizes)
    return out.copy_(result)


def plan_linear(op: OperatorEntry, key_set: int, args: Sequence[Any]) -> Plan:
    """Plan host tensors as one kernel; plan a matrix input with a bias as `t` and `addmm`."""
    plan = _plan_rows(op, key_set, args)
    if plan is not None:
        return plan
    input, weight, bias = args
    if bias is None or input._spec.ndim != 2 or weight._spec.ndim != 2:
        return op.rebind(linear, args)
    find = Dispatcher.singleton().find_schema_or_throw
    transpose, product = find("aten::t"), find("aten::addmm")
    transposed = weight.t()
    if weight._spec.requires_grad:
        transposed = Tensor.from_data(transposed._data, transposed._spec.differentiable)
    transpose_plan = transpose.plan(effective(transpose.key_set_of((weight,))), (weight,))
    product_plan = product.plan(key_set, (bias, input, transposed, 1, 1))

    def planned(input: Tensor, weight: Tensor, bias: Tensor) -> Any:
        return product_plan(bias, input, transpose_plan(weight))

    return planned


@planned_by(plan_linear)
def linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute `torch.nn.functional.linear`: input @ weight^T + bias over the last dimension."""
    spec, rank = input._spec, weight._spec.ndim
    if spec.ndim == 0 or rank == 0:
        raise RuntimeError(
            f"both arguments to linear need to be at least 1D, but they are {spec.ndim}D and {rank}D"
        )
    if bias is None:
        return matmul(input, weight.t())
    if spec.ndim == 2:
        return addmm(bias, input, weight.t())
    if rank == 2 and spec.ndim > 2 and spec.is_contiguous and bias._spec.ndim == 1:
        rows = input.view((_product(spec.sizes[:-1]), spec.sizes[-1]))
        return addmm(bias, rows, weight.t()).view((*spec.sizes[:-1], weight._spec.sizes[0]))
    return matmul(input, weight.t()) + bias


def linear_out(input: Tensor, weight: Tensor, bias: Tensor | None, out: Tensor) -> Tensor:
    """Run ``linear(out=)``."""
    return out_form("linear", linear, exact=True)(input, weight, bias, out)
