"""The steps as launches: one for each dtype among the rows, with the variants that its numbers ask for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dispatch.structured.stub import PlannedKernel, StructuredCall, register_stub
from ...runtime.cuda.triton.lazy_kernel import LazyKernel
from ...runtime.device import device as Device
from ...runtime.tensor_spec import TensorSpec
from ..budget import DECLARATIONS, name_of
from ..conversion import compute_type
from ..launch import ALIGNMENT, Launch, interpreted
from ..tuning.choice import configuration
from .adam_kernel import fused_adam
from .sgd_kernel import fused_sgd
from .tensor_table import TensorTable, block_of
from .unscale_kernel import unscale

COUNT_BYTES = 4
"""Bytes of a step count, which is a float32."""
POINTERS = {"scale": "*fp32", "found_inf": "*fp32", "inverse": "*fp32"}


class Group:
    """The rows of one dtype: their indices, and the launches over them.

    Args:
        device: Device of the tensors.
        kernel: a declared kernel.
        specs: all rows' first tensors; those without elements are left out.
        indices: Indices of the rows of this dtype.
        operands: Number of tensors of the dtype in a row.
        counts: If True, each row has a step count too.
        rate: the spec of a rate that stands in memory.
    """

    def __init__(
        self,
        device: Device,
        kernel: LazyKernel,
        specs: Sequence[TensorSpec],
        indices: Sequence[int],
        counts: bool = False,
        rate: Any = None,
    ) -> None:
        own = [specs[index] for index in indices]
        dtype = own[0].dtype
        self._device, self._kernel, self._specs, self.indices = device, kernel, own, indices
        self._name = str(dtype.triton_name)
        self._itemsize = dtype.itemsize
        self._counts = counts
        self._rate = f"*{rate.dtype.triton_name}" if isinstance(rate, TensorSpec) else ""
        numel = sum(spec.numel for spec in own)
        default = DECLARATIONS[name_of(kernel)].configurations[self._name][0]
        if interpreted():
            self._chosen = default
        else:
            self._chosen = configuration(kernel, device, self._name, (numel, len(own)), default)
        self._block = block_of(self._chosen, interpreted(), max(spec.numel for spec in own))
        self._constants = {
            "TYPE": compute_type(dtype),
            "V": ALIGNMENT // dtype.itemsize,
            "BLOCK": self._block,
        }
        self._tables: dict[int, TensorTable] = {}
        self._launches: dict[Any, Launch] = {}

    def launch(
        self,
        operands: Sequence[Sequence[Any]],
        numbers: dict[str, Any],
        constants: dict[str, object],
    ) -> None:
        """Enqueue a step.

        Args:
            operands: the tensors of each column, of all rows; those that the variant does not touch are left out.
            numbers: the kernel's other arguments: a float, a `DataPtr` to a number, or None.
            constants: its variant.
        """
        columns = [[operand[index] for index in self.indices] for operand in operands]
        table = self._tables.get(len(columns))
        if table is None:
            table = self._tables[len(columns)] = self._table(len(columns))
        memory = table.at(columns)
        types = {name: self._type_of(name, value) for name, value in numbers.items() if value is not None}
        key = (*types.values(), *constants.values())
        planned = self._launches.get(key)
        if planned is None:
            planned = self._launches[key] = self._made(types, constants)
        bases = (0, 0) if self._counts else (0,)
        values = [getattr(value, "address", value) for value in numbers.values() if value is not None]
        planned((table.programs, 1, 1), *bases, memory.address, table.rows, *values)

    def _table(self, columns: int) -> TensorTable:
        # Steps stand behind the operands that each variant has; `amsgrad` adds one behind them.
        sizes = [self._itemsize] * columns
        if self._counts:
            sizes[4] = COUNT_BYTES
        return TensorTable(self._device, self._specs, sizes, self._block)

    def _type_of(self, name: str, value: Any) -> str:
        if name in POINTERS:
            return POINTERS[name]
        return "fp64" if isinstance(value, float | int) else self._rate

    def _made(self, types: dict[str, str], constants: dict[str, object]) -> Launch:
        signature = {"base": f"*{self._name}"} | ({"counts": "*fp32"} if self._counts else {})
        signature |= {"table": "*i64", "rows": "i32", **types}
        every = {**constants, **self._constants}
        every |= {
            name: None for name in self._kernel.arg_names if name not in signature and name not in every
        }
        return Launch(
            self._device,
            self._kernel,
            signature,
            every,
            elements=[name for name, type_ in types.items() if type_.startswith("*")],
            num_warps=self._chosen.warps,
            num_stages=self._chosen.stages,
        )


def groups(call: StructuredCall, kernel: LazyKernel, counts: bool = False) -> list[Group]:
    """Return the rows of a call by dtype."""
    specs: Sequence[TensorSpec] = call.args["self"]
    by_dtype: dict[Any, list[int]] = {}
    for index, spec in enumerate(specs):
        if spec.numel:
            by_dtype.setdefault(spec.dtype, []).append(index)
    rate = call.args.get("lr")
    return [Group(call.device, kernel, specs, indices, counts, rate) for indices in by_dtype.values()]


def is_indirect(lr: Any) -> bool:
    """Return True if the learning rate is in device memory."""
    return not isinstance(lr, float | int)


def plan_sgd(call: StructuredCall) -> PlannedKernel:
    """Return ``into(parameters, gradients, buffers, weight_decay, momentum, lr, dampening, scale, found_inf)``."""
    every = groups(call, fused_sgd)
    nesterov, maximize, is_first = (call.extra[n] for n in ("nesterov", "maximize", "is_first_step"))

    def into(
        parameters: Any,
        gradients: Any,
        buffers: Any,
        weight_decay: float,
        momentum: float,
        lr: Any,
        dampening: float,
        scale: Any,
        found_inf: Any,
    ) -> None:
        has_momentum = momentum != 0
        numbers = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "dampening": dampening,
            "scale": scale,
            "found_inf": found_inf,
        }
        constants = {
            "INDIRECT": is_indirect(lr),
            "DECAY": weight_decay != 0,
            "MOMENTUM": has_momentum,
            "FIRST": has_momentum and is_first,
            "NESTEROV": has_momentum and nesterov,
            "MAXIMIZE": maximize,
        }
        operands = (parameters, gradients, buffers) if has_momentum else (parameters, gradients)
        for group in every:
            group.launch(operands, numbers, constants)

    return PlannedKernel(into)


def plan_adam(call: StructuredCall) -> PlannedKernel:
    """Return ``into(parameters, gradients, averages, squares, ..., scale, found_inf)`` of Adam or AdamW."""
    every = groups(call, fused_adam, counts=True)
    amsgrad, maximize, decoupled = (call.extra[name] for name in ("amsgrad", "maximize", "decoupled"))

    def into(
        parameters: Any,
        gradients: Any,
        averages: Any,
        squares: Any,
        largest: Any,
        counts: Any,
        lr: Any,
        beta1: float,
        beta2: float,
        weight_decay: float,
        eps: float,
        scale: Any,
        found_inf: Any,
    ) -> None:
        numbers = {
            "lr": lr,
            "beta1": beta1,
            "beta2": beta2,
            "weight_decay": weight_decay,
            "eps": eps,
            "scale": scale,
            "found_inf": found_inf,
        }
        constants = {
            "INDIRECT": is_indirect(lr),
            "DECOUPLED": decoupled,
            "DECAY": weight_decay != 0,
            "AMSGRAD": amsgrad,
            "MAXIMIZE": maximize,
        }
        operands = (parameters, gradients, averages, squares, counts, *((largest,) if amsgrad else ()))
        for group in every:
            group.launch(operands, numbers, constants)

    return PlannedKernel(into)


def plan_unscale(call: StructuredCall) -> PlannedKernel:
    """Return ``into(gradients, found_inf, inverse)``."""
    every = groups(call, unscale)

    def into(gradients: Any, found_inf: Any, inverse: Any) -> None:
        for group in every:
            group.launch((gradients,), {"inverse": inverse, "found_inf": found_inf}, {})

    return PlannedKernel(into)


Factory = Callable[[StructuredCall], PlannedKernel]

STEPS: dict[str, Factory] = {
    "fused_sgd_stub": plan_sgd,
    "fused_adam_stub": plan_adam,
    "unscale_and_check_stub": plan_unscale,
}

for _stub, _factory in STEPS.items():
    register_stub(_stub, "cuda", _factory)
