"""Interface of fusible steps: all that the scheduler and the code generators know of a kind of step.

To add a kind of step:

1. Write a subclass of `FusedStep` and its matcher in a file of `compiler/`, like `picks.py`.
2. Add the matcher to `MATCHERS` of `schedule.py`.
3. Write the lowering for the CPU in a file of `host/`, like `host/picks.py`.
4. Write the lowering for CUDA in a file of `triton/`, like `triton/gathers.py`.

A method that is not overridden says that the step has no such property, or no such lowering.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from ..dispatch.layers.graph.graph import Node
from ..runtime.cpu.element_program import CannotLower
from ..runtime.device import device as Device
from ..runtime.tensor_spec import TensorSpec
from .row_space import RowSpace, View

if TYPE_CHECKING:
    from ..runtime.cpu.element_program import Value
    from .concatenations import Region
    from .host.lowering import Lowered
    from .host.row_program import LoweredRows
    from .triton.pointwise import ElementWriter
    from .triton.row_statements import Program

Check = Callable[[Any], None]
"""Function that raises the eager error for an array with an invalid element."""


class IndexSpace(Protocol):
    """Index space that a reduction gives to its kernel: rows, or blocks that share reductions."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the tensors that have all elements."""

    @property
    def device(self) -> Device:
        """Device of the kernel."""

    @property
    def is_rows(self) -> bool:
        """True if each row is computed by itself."""

    def holds(self, sizes: Sequence[int]) -> bool:
        """Return True if a result of these sizes belongs to the kernel."""

    def joins(self, reader: Node, is_pointwise: bool, operand: Node) -> bool:
        """Return True if a step reads only the same part of another step's result."""


class EagerCall(NamedTuple):
    """Step of a CPU kernel that runs as an eager call, between the loops around it.

    Attributes:
        function: Function from the operands' arrays, and for a random op its seed and first counter, to the results'.
        operands: The tensors that it reads.
        results: The nodes of its results; None for one that no step reads.
    """

    function: Callable[..., Any]
    operands: list[Node]
    results: list[Node | None]


class FusedStep:
    """A step that may be in a kernel."""

    if TYPE_CHECKING:

        @property
        def node(self) -> Node:
            """The step's node of the graph."""

    # Interface to the scheduler

    is_computed: ClassVar[bool] = True
    """False for a step that only takes one of several results."""
    is_pointwise: ClassVar[bool] = False
    """True if each element of the result depends on the operands' elements at its own index."""
    turn: ClassVar[int] = 1
    """The turn in which a step joins kernels: 2 for a step that no other step of its kernel can follow."""
    is_split_off: ClassVar[bool] = False
    """True if a CPU kernel that is not one loop runs the step as an eager call, `eager_call`."""

    @property
    def reads_repeatedly(self) -> bool:
        """True if an eager call reads its operand several times, so that a fused loop is always faster."""
        return False

    @property
    def has_exclusions(self) -> bool:
        """True if `excludes` may return True."""
        return False

    @property
    def operands(self) -> list[Any]:
        """Operands that are read at the index of the result: nodes and numbers."""
        raise NotImplementedError

    @property
    def index_space(self) -> IndexSpace | None:
        """Index space of the kernel, if the step fixes it."""
        return None

    @property
    def specs(self) -> tuple[TensorSpec, ...]:
        """Specs of its outputs; None for an unrequested output."""
        val = self.node.val
        return (val,) if isinstance(val, TensorSpec) else tuple(val)

    @property
    def results(self) -> dict[int, Node]:
        """Nodes of its outputs by their indices: itself, or the `getitem` of each."""
        if isinstance(self.node.val, TensorSpec):
            return {0: self.node}
        return {user.args[1]: user for user in self.node.users}

    @property
    def row_specs(self) -> Sequence[TensorSpec]:
        """Specs of the results that rows have."""
        return self.specs

    @property
    def column_sums(self) -> dict[int, Node]:
        """Nodes of those results that are sums over rows, by their indices."""
        return {}

    @property
    def is_in_order(self) -> bool:
        """True unless the result is not contiguous."""
        return True

    @property
    def gathered(self) -> tuple[Node, ...]:
        """Operands that must be complete before the step, such as a tensor from which it gathers."""
        return ()

    @property
    def coordinates(self) -> tuple[int, ...]:
        """Dimensions along which a CUDA kernel needs an element's coordinate to compute the step."""
        return ()

    def is_supported_in(self, space: IndexSpace) -> bool:
        """Return True if a kernel with this index space may compute the step."""
        return True

    def reads_inside(self, operand: Node, space: IndexSpace) -> bool:
        """Return True if the step reads only the same row or block of a result of the same kernel."""
        return space.joins(self.node, self.is_pointwise, operand)

    def excludes(self, other: FusedStep) -> bool:
        """Return True if no kernel may compute both steps."""
        return False

    def space_for_reader(self, reader: FusedStep, space: IndexSpace | None) -> IndexSpace | None:
        """Return the index space of a kernel of this step and the only reader of its result, which broadcasts it.

        Args:
            reader: The step that broadcasts.
            space: The index space of the reader's kernel, if it has one already.

        Returns:
            None if one kernel cannot compute both.
        """
        return None

    # Interface to the code generators

    def view_of(self, operand: Node, space: RowSpace) -> View:
        """Return the view of a kernel's input that the step reads in a kernel over rows."""
        return View(operand, self.specs[0].ndim if operand.val.ndim else None)

    def is_loop_alone(self, stubs: frozenset[str]) -> bool:
        """Return True if a CPU loop is faster than the eager call even if no other step is fused with it.

        Args:
            stubs: Names of the eager kernels for which this is so.
        """
        return False

    def lower_elements(self, kernel: Lowered) -> dict[Node, Value]:
        """Add the step to a CPU loop over elements. Return the values of its results, or raise CannotLower."""
        raise CannotLower(self.node.target.name())

    def lower_row(self, kernel: LoweredRows, values: dict[Node, Value]) -> dict[Node, Value]:
        """Add the step to a CPU loop over rows. Return the values of its results, or raise CannotLower.

        Args:
            kernel: The loop.
            values: The values of its operands.
        """
        raise CannotLower(self.node.target.name())

    def eager_call(self) -> EagerCall:
        """Return the step as an eager call; for steps with `is_split_off`."""
        raise NotImplementedError

    @property
    def check(self) -> tuple[Node, Check] | None:
        """Operand that a CPU kernel checks before its loop, and the check; None for most steps."""
        return None

    def write_elements(self, writer: ElementWriter) -> dict[Node, str]:
        """Add the step to a pointwise CUDA kernel. Return its results as source."""
        raise RuntimeError(f"{self.node.target.name()} has no function of one element")

    def write_row(self, program: Program, values: dict[Node, str], row_size: int) -> dict[Node, str]:
        """Add the step to a CUDA kernel over rows. Return the names of its results' values.

        Args:
            program: The statements of the kernel.
            values: The names of the values of its operands.
            row_size: The number of elements of a row.
        """
        raise RuntimeError(f"{self.node.target.name()} has no statements for a row")

    def read_region(self, index: int) -> Region | None:
        """Return the part of the kernel's index space for which the operand at an index is read; None for all of it."""
        return None

    def read_spec(self, operand: Node) -> TensorSpec | None:
        """Return the broadcast spec with which an operand is read; None for the operand's own."""
        return None
