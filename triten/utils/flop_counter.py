"""`FlopCounterMode`: the floating-point operations of a program, by module (`torch.utils.flop_counter`).

Products, convolutions and attention are counted, two operations for a product that is added; all else is left out, as
in PyTorch. `FORMULAS` says how many each operator takes, from the shapes of its arguments and of its result.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any, Self

from ..dispatch.core.op_overload import OpOverload, OpOverloadGroup, Ops
from ..dispatch.layers.python_key import TensorDispatchMode
from ..dispatch.layers.pytree import tree_map
from ..dispatch.tensor import Tensor
from .module_tracker import GLOBAL, ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

_aten = Ops().aten

Formula = Callable[..., int]
Shape = Sequence[int]

flop_registry: dict[OpOverloadGroup, Formula] = {}
"""A formula of each operator: the number of its arguments, whose tensors are shapes, and of ``out_shape``."""


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Formula], Formula]:
    """Say how many operations an operator takes (`torch.utils.flop_counter.register_flop_formula`).

    Args:
        targets: an operator of `tt.ops`, or a list of them.
        get_raw: If True, the formula is given the tensors, as ``out_val`` the result, and not their shapes. Default:
            False.

    Returns:
        What decorates the formula, a function of the arguments and of ``out_shape``.

    Raises:
        ValueError: `targets` is no operator of `tt.ops`, or has a formula.

    Example:
        >>> import triten as tt
        >>> from triten.utils.flop_counter import FlopCounterMode, register_flop_formula
        >>> counter = FlopCounterMode(
        ...     display=False, custom_mapping={tt.ops.aten.cumsum: lambda x, dim, *, out_shape: out_shape[0]})
        >>> with counter:
        ...     y = tt.ones(8).cumsum(0)
        >>> counter.get_total_flops()
        8
    """

    def register(formula: Formula) -> Formula:
        for target in targets if isinstance(targets, (list, tuple)) else [targets]:
            if not isinstance(target, OpOverloadGroup):
                raise ValueError(
                    "register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. "
                    f"tt.ops.mylib.foo), got {target} which is of type {type(target)}"
                )
            if target in flop_registry:
                raise ValueError(f"register_flop_formula: duplicate registrations for {target}")
            flop_registry[target] = formula if get_raw else _of_shapes(formula)
        return formula

    return register


def _of_shapes(formula: Formula) -> Formula:
    def counted(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        shapes, named, result = tree_map(_shape, (args, kwargs, out_val))
        return formula(*shapes, out_shape=result, **named)

    return counted


def _shape(value: Any) -> Any:
    return value.shape if isinstance(value, Tensor) else value


def _formula(*names: str) -> Callable[[Formula], Formula]:
    return register_flop_formula([getattr(_aten, name) for name in names])


@_formula("mm")
def _mm(a: Shape, b: Shape, *args: Any, out_shape: Shape, **named: Any) -> int:
    return 2 * a[0] * a[1] * b[1]


@_formula("addmm")
def _addmm(bias: Shape, a: Shape, b: Shape, *, out_shape: Shape, **named: Any) -> int:
    return 2 * a[0] * a[1] * b[1]


@_formula("bmm")
def _bmm(a: Shape, b: Shape, *, out_shape: Shape, **named: Any) -> int:
    return 2 * a[0] * a[1] * a[2] * b[2]


@_formula("baddbmm")
def _baddbmm(bias: Shape, a: Shape, b: Shape, *, out_shape: Shape, **named: Any) -> int:
    return 2 * a[0] * a[1] * a[2] * b[2]


@_formula("_scaled_mm")
def _scaled_mm(a: Shape, b: Shape, *args: Any, out_shape: Shape, **named: Any) -> int:
    return 2 * a[0] * a[1] * b[1]


def convolution_flops(x: Shape, weight: Shape, result: Shape, transposed: bool = False) -> int:
    """Count a convolution's operations: each weight is used at each position of the smaller spatial side."""
    positions = (x if transposed else result)[2:]
    return 2 * prod(positions) * prod(weight[2:]) * x[0] * weight[0] * weight[1]


@_formula("convolution")
def _convolution(
    x: Shape,
    weight: Shape,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    *args: Any,
    out_shape: Shape,
    **named: Any,
) -> int:
    return convolution_flops(x, weight, out_shape, transposed)


def _swapped(shape: Shape) -> list[int]:
    return [shape[1], shape[0], *shape[2:]]


def _of_weight(grad: Shape, x: Shape, weight: Shape, transposed: bool) -> int:
    if transposed:
        return convolution_flops(_swapped(grad), _swapped(x), _swapped(weight))
    return convolution_flops(_swapped(x), _swapped(grad), _swapped(weight))


@_formula("convolution_backward")
def _convolution_backward(
    grad: Shape,
    x: Shape,
    weight: Shape,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Sequence[bool],
    *,
    out_shape: Any,
    **named: Any,
) -> int:
    count = 0
    if output_mask[0]:
        count += convolution_flops(grad, weight, x, not transposed)
    if output_mask[1]:
        count += _of_weight(grad, x, weight, transposed)
    return count


@_formula("_convolution_backward_both")
def _convolution_backward_both(
    grad: Shape, x: Shape, weight: Shape, *args: Any, out_shape: Any, **named: Any
) -> int:
    return convolution_flops(grad, weight, x, True) + _of_weight(grad, x, weight, False)


@_formula("convolution_backward_input")
def _convolution_backward_input(
    grad: Shape, weight: Shape, x: Shape, *args: Any, out_shape: Shape, **named: Any
) -> int:
    return convolution_flops(grad, weight, x, True)


@_formula("convolution_backward_weight")
def _convolution_backward_weight(
    grad: Shape, x: Shape, weight: Shape, *args: Any, out_shape: Shape, **named: Any
) -> int:
    return _of_weight(grad, x, weight, False)


def attention_flops(query: Shape, key: Shape, value: Shape) -> int:
    """Count the operations of attention's two matmuls."""
    batch = prod(query[:-2])
    return 2 * batch * query[-2] * key[-2] * (query[-1] + value[-1])


@_formula(
    "_scaled_dot_product_flash_attention_for_cpu",
    "_scaled_dot_product_efficient_attention",
)
def _attention(query: Shape, key: Shape, value: Shape, *args: Any, out_shape: Any, **named: Any) -> int:
    return attention_flops(query, key, value)


@_formula(
    "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_scaled_dot_product_efficient_attention_backward",
)
def _attention_backward(
    grad: Shape, query: Shape, key: Shape, value: Shape, *args: Any, out_shape: Any, **named: Any
) -> int:
    # The scores once more; the gradients of the scores and of value; those of query and of key.
    batch, pairs = prod(query[:-2]), query[-2] * key[-2]
    return 2 * batch * pairs * (3 * query[-1] + 2 * value[-1])


SUFFIXES = ("", "K", "M", "B", "T")


def _with_suffix(count: int, suffix: int) -> str:
    if suffix == 0:
        return str(count)
    return f"{count / 1000**suffix:.3f}{SUFFIXES[suffix]}"


class FlopCounterMode:
    """Mode that counts the floating-point operations of a block (`torch.utils.flop_counter.FlopCounterMode`).

    Args:
        mods: not used: modules are found as they run.
        depth: The number of module levels in the table.
        display: If True, print the table at the end of the block. Default: True.
        custom_mapping: formulas of further operators, as `register_flop_formula` has them; one with an attribute
            ``_get_raw`` that holds is given tensors.

    Example:
        >>> import triten as tt
        >>> from triten.utils.flop_counter import FlopCounterMode
        >>> model = tt.nn.Sequential(tt.nn.Linear(16, 4), tt.nn.ReLU())
        >>> with FlopCounterMode(depth=1) as counter:
        ...     y = model(tt.ones(2, 16))
        Module          FLOP    % Total
        ------------  ------  ---------
        Sequential       256    100.00%
        - aten.addmm     256    100.00%
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: Mapping[Any, Formula] | None = None,
    ) -> None:
        self.depth = depth
        self.display = display
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.flop_registry: dict[Any, Formula] = {
            **flop_registry,
            **{
                op: formula if getattr(formula, "_get_raw", False) else _of_shapes(formula)
                for op, formula in (custom_mapping or {}).items()
            },
        }
        self.mod_tracker = ModuleTracker()
        self._mode: _Counting | None = None

    def get_total_flops(self) -> int:
        """Return the number of operations of the last block."""
        return sum(self.flop_counts[GLOBAL].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Return the operations by module and operator; ``"Global"`` has those of the whole block."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Format the counts as a table: modules up to `depth`, their operators, and their share of the total."""
        depth = 999999 if depth is None else depth
        total = self.get_total_flops()
        suffix = 0
        while suffix + 1 < len(SUFFIXES) and total >= 1000 ** (suffix + 1):
            suffix += 1
        rows: list[tuple[str, str, str]] = []
        is_subset = False
        for name in sorted(self.flop_counts):
            level = name.count(".") + 1
            if name == GLOBAL or level > depth:
                continue
            is_subset |= sum(self.flop_counts[name].values()) >= total
            rows += self._rows(name, total, suffix)
        # The whole is its outermost module, as a rule: it is a row of its own where it is more.
        if GLOBAL in self.flop_counts and not is_subset:
            rows = [*self._rows(GLOBAL, total, suffix), *rows]
        return _table(("Module", "FLOP", "% Total"), rows or [(GLOBAL, "0", "0%")])

    def _rows(self, name: str, total: int, suffix: int) -> Iterable[tuple[str, str, str]]:
        counts = self.flop_counts[name]
        for text, count in ((name, sum(counts.values())), *((f"- {op}", n) for op, n in counts.items())):
            yield text, _with_suffix(count, suffix), f"{count / total:.2%}" if total else "0%"

    def __enter__(self) -> Self:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self._mode = _Counting(self)
        self._mode.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        mode, self._mode = self._mode, None
        if mode is not None:
            mode.__exit__(*error)
        self.mod_tracker.__exit__(*error)
        if self.display and error[0] is None:
            print(self.get_table(self.depth))

    def _count(self, op: Any, result: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        formula = self.flop_registry.get(op)
        if formula is not None:
            count = formula(*args, **kwargs, out_val=result)
            for name in self.mod_tracker.parents | {GLOBAL}:
                self.flop_counts[name][op] += count


class _Counting(TensorDispatchMode):
    """The mode that hears of every operator."""

    sees_parts = True

    def __init__(self, counter: FlopCounterMode) -> None:
        super().__init__()
        self.counter = counter

    def __tensor_dispatch__(
        self, func: OpOverload, types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        self.counter._count(func.overloadpacket, result, args, kwargs or {})
        return result


def _table(heads: tuple[str, str, str], rows: Sequence[tuple[str, str, str]]) -> str:
    widths = [max(len(heads[i]) + 2, *(len(row[i]) for row in rows)) for i in range(3)]

    def line(row: tuple[str, str, str]) -> str:
        return f"{row[0]:<{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}"

    return "\n".join([line(heads), "  ".join("-" * width for width in widths), *map(line, rows)])
