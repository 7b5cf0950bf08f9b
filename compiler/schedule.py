"""Schedules: the order in which a graph is computed, and its fused kernels.

Code is generated from a schedule: operator calls and `FusedKernel`s. `str()` prints it, and `check` validates it.

Example:
    >>> import triten as tt
    >>> from triten.compiler.schedule import fused_schedule
    >>> traced = tt.func.make_graph(lambda a, b, c: tt.relu((a + b) * c) @ c)(*[tt.ones(4, 4)] * 3)
    >>> print(fused_schedule(traced.graph))
    kernel add_mul_relu(%a, %b, %c) -> %relu over [4, 4] on cpu:
        %add : float32[4, 4] = aten.add.Tensor(%a, %b)
        %mul : float32[4, 4] = aten.mul.Tensor(%add, %c)
        %relu : float32[4, 4] = aten.relu(%mul)
    call %mm : float32[4, 4] = aten.mm(%relu, %c)
"""

from __future__ import annotations

import heapq
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..dispatch.layers.graph.graph import Graph, Node
from ..runtime.device import device as Device
from ..runtime.tensor_spec import TensorSpec
from .block_reductions import ReductionCall, ReductionSpace, block_reduction
from .concatenations import CatCall, cat_calls
from .draws import DropoutCall, dropout_call
from .fused_step import FusedStep, IndexSpace
from .gathers import gather_call
from .kernel_names import joined_name
from .loss_gradients import loss_gradient_call
from .norm_gradients import norm_gradient_call
from .one_hots import one_hot_call
from .operand_limit import MAX_OPERANDS, bounded_runs
from .picks import PickCall, pick_call
from .pointwise import PointwiseCall, pointwise_call
from .product_kernel import ProductKernel
from .reductions import ResultOf, RowCall, row_call
from .row_space import RowSpace
from .triangles import triangle_call

MAX_POINTWISE = 128
"""The most steps of a pointwise kernel: compile time per step grows with the length of a loop's body, and another pass
over the arrays costs little beside so many instructions."""
MAX_STEPS = 64
"""The most steps of a row kernel: a GPU's registers hold no more, and the CPU would pass a long row too often."""

MATCHERS: tuple[Callable[[Node], FusedStep | None], ...] = (
    pointwise_call,
    row_call,
    gather_call,
    norm_gradient_call,
    loss_gradient_call,
    one_hot_call,
    block_reduction,
    dropout_call,
    pick_call,
    triangle_call,
)
"""Matchers of the kinds of fusible steps; the first that matches a node decides. `cat_calls` follows them."""


@dataclass(frozen=True)
class OperatorCall:
    """A step that is an operator's call, or takes one of its results."""

    node: Node

    def __str__(self) -> str:
        return f"call {self.node.format_node()}"


@dataclass(frozen=True)
class FusedKernel:
    """Pointwise steps over one index space that are computed together.

    Attributes:
        calls: the steps in order.
        inputs: the nodes outside that they read.
        outputs: the steps that are read outside, or are results.
    """

    calls: tuple[FusedStep, ...]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]

    @property
    def domain(self) -> TensorSpec:
        """Spec of the first output, whose sizes are those of the index space."""
        spec: TensorSpec = self.outputs[0].val
        return spec

    @property
    def name(self) -> str:
        """The names of its operators, joined."""
        return joined_name(self.computed)

    @property
    def computed(self) -> list[FusedStep]:
        """The steps that are computed: all but those which take one of several results."""
        return [call for call in self.calls if call.is_computed]

    @property
    def draws(self) -> list[DropoutCall]:
        """Random ops of the kernel, in order."""
        return [call for call in self.calls if isinstance(call, DropoutCall)]

    @property
    def joins(self) -> list[CatCall]:
        """Its steps that put tensors one after another."""
        return [call for call in self.calls if isinstance(call, CatCall)]

    @property
    def picks(self) -> list[PickCall]:
        """Its steps that pick elements."""
        return [call for call in self.calls if isinstance(call, PickCall)]

    @property
    def pointwise(self) -> list[PointwiseCall]:
        """Its pointwise steps."""
        return [call for call in self.calls if isinstance(call, PointwiseCall)]

    @property
    def device(self) -> Device:
        """Device of the kernel."""
        return self.domain.device

    def __str__(self) -> str:
        inputs, outputs = ", ".join(map(repr, self.inputs)), ", ".join(map(repr, self.outputs))
        spec = self.domain
        head = f"kernel {self.name}({inputs}) -> {outputs} over {list(spec.sizes)} on {spec.device}:"
        return "\n".join([head, *(f"    {call.node.format_node()}" for call in self.calls)])


@dataclass(frozen=True)
class RowsKernel:
    """Reductions of rows, and pointwise steps over these rows, that are computed together.

    Attributes:
        calls: the steps in order.
        inputs: the nodes outside that they read.
        outputs: the steps that are read outside, or are results.
        space: the rows.
    """

    calls: tuple[FusedStep, ...]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    space: RowSpace

    @property
    def device(self) -> Device:
        """Device of the kernel."""
        return self.space.device

    @property
    def name(self) -> str:
        """The names of its operators, joined."""
        return joined_name(self.computed)

    @property
    def computed(self) -> list[FusedStep]:
        """The steps that are computed: all but those which take one of several results."""
        return [call for call in self.calls if call.is_computed]

    @property
    def planned_calls(self) -> list[PointwiseCall | RowCall]:
        """The steps that the kernels of eager calls compute for some rows, which are all on the CPU."""
        return [call for call in self.calls if isinstance(call, PointwiseCall | RowCall)]

    @property
    def draws(self) -> list[DropoutCall]:
        """Random ops of the kernel, in order."""
        return [call for call in self.calls if isinstance(call, DropoutCall)]

    @property
    def picks(self) -> list[PickCall]:
        """Its steps that pick an element of each row, which are all on the CPU."""
        return [call for call in self.calls if isinstance(call, PickCall)]

    @property
    def column_sums(self) -> list[Node]:
        """The results that are sums over rows."""
        return [node for call in self.calls for node in call.column_sums.values()]

    def __str__(self) -> str:
        inputs, outputs = ", ".join(map(repr, self.inputs)), ", ".join(map(repr, self.outputs))
        rows = f"rows {list(self.space.line)} of {list(self.space.sizes)}"
        head = f"kernel {self.name}({inputs}) -> {outputs} over {rows} on {self.device}:"
        return "\n".join([head, *(f"    {call.node.format_node()}" for call in self.calls)])


@dataclass(frozen=True)
class ReductionKernel:
    """Reductions that many blocks share, fused with the pointwise steps before them.

    Attributes:
        calls: The steps in order.
        inputs: The outside nodes that they read.
        outputs: The steps that are read outside, or are results.
        space: The reduced index space.
    """

    calls: tuple[FusedStep, ...]
    inputs: tuple[Node, ...]
    outputs: tuple[Node, ...]
    space: ReductionSpace

    @property
    def device(self) -> Device:
        """Device of the kernel."""
        return self.space.device

    @property
    def name(self) -> str:
        """The names of its operators, joined."""
        return joined_name(self.computed)

    @property
    def computed(self) -> list[FusedStep]:
        """The steps that are computed: all but those which take one of several results."""
        return [call for call in self.calls if call.is_computed]

    @property
    def reductions(self) -> list[ReductionCall]:
        """The reductions."""
        return [call for call in self.calls if isinstance(call, ReductionCall)]

    @property
    def chain(self) -> FusedKernel | None:
        """The pointwise steps as a kernel of their own, whose outputs are this kernel's and the reduced operands."""
        pointwise = [call for call in self.calls if isinstance(call, PointwiseCall)]
        if not pointwise:
            return None
        inside = {call.node for call in pointwise}
        inputs = tuple([n for n in self.inputs if any(n in call.node.all_input_nodes for call in pointwise)])
        reduced = [call.source for call in self.reductions if call.source in inside]
        made = [node for node in self.outputs if node in inside]
        return FusedKernel(tuple(pointwise), inputs, tuple(dict.fromkeys((*made, *reduced))))

    def __str__(self) -> str:
        inputs, outputs = ", ".join(map(repr, self.inputs)), ", ".join(map(repr, self.outputs))
        dims = f"dimensions {list(self.space.dims)} of {list(self.space.sizes)}"
        head = f"kernel {self.name}({inputs}) -> {outputs} over {dims} on {self.device}:"
        return "\n".join([head, *(f"    {call.node.format_node()}" for call in self.calls)])


Kernel = FusedKernel | RowsKernel | ReductionKernel | ProductKernel
Step = OperatorCall | Kernel


@dataclass(frozen=True)
class Schedule:
    """The steps of a graph in the order in which they run."""

    graph: Graph
    steps: tuple[Step, ...]

    @property
    def kernels(self) -> list[Kernel]:
        """The fused kernels, in order."""
        return [step for step in self.steps if not isinstance(step, OperatorCall)]

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))

    def check(self) -> None:
        """Raise RuntimeError for a step that is missing, duplicate, or before its operands."""
        done = {*self.graph.find_nodes(op="placeholder"), *self.graph.find_nodes(op="get_attr")}
        for step in self.steps:
            nodes = [step.node] if isinstance(step, OperatorCall) else [call.node for call in step.calls]
            for node in nodes:
                early = [operand for operand in node.all_input_nodes if operand not in done]
                if early or node in done:
                    problem = f"before %{early[0].name}" if early else "twice"
                    raise RuntimeError(f"schedule: %{node.name} is computed {problem}")
                done.add(node)
        missing = [n for n in self.graph.find_nodes(op="call_function") if n not in done]
        if missing:
            raise RuntimeError(f"schedule: %{missing[0].name} is missing")


def plain_schedule(graph: Graph) -> Schedule:
    """Return a schedule without fusion."""
    return Schedule(graph, tuple(OperatorCall(n) for n in graph.find_nodes(op="call_function")))


def fused_schedule(graph: Graph) -> Schedule:
    """Return a schedule in which steps over one index space are fused into as few kernels as possible.

    A step joins the kernels of its operands, unless a step in between would have to run both before and after the
    kernel. Fusion follows these rules:

    - Pointwise steps fuse with each other, and reductions with pointwise steps over the same rows.
    - Reductions fuse with one another if they read the same operand.
    - Reductions that blocks share come last: no step can follow them in their kernel.
    - A kernel of one step stays an operator call.
    """
    nodes = graph.find_nodes(op="call_function")
    calls = fused_steps(nodes)
    in_order = {node: call for node, call in calls.items() if call.is_in_order}
    cats = cat_calls(nodes, in_order, graph.output_node.all_input_nodes)
    calls.update((call.node, call) for call in cats)
    grouping = _Grouping(nodes, calls)
    parts = {node for call in cats for node in call.steps}
    for call in cats:
        grouping.unite((call.node, *call.steps))
    alone = [node for node in calls if node not in parts]
    for node in sorted(alone, key=lambda n: _turn(n, calls)):
        grouping.join(node, [n for n in _neighbours(node, calls) if n in calls])
    grouping.join_broadcast_rows(graph.output_node.all_input_nodes)
    return Schedule(graph, tuple(_ordered(graph, nodes, calls, grouping)))


def _turn(node: Node, calls: dict[Node, FusedStep]) -> int:
    """Return a step's turn in grouping: reductions that blocks share come last, and their results first."""
    call = calls[node]
    if call.is_computed:
        return call.turn
    source = calls.get(node.args[0])
    return 0 if source is not None and source.turn == 2 else 1


def fused_steps(nodes: Sequence[Node]) -> dict[Node, FusedStep]:
    """Return the fusible steps."""
    steps: dict[Node, FusedStep] = {}
    for node in nodes:
        if node.target is operator.getitem:
            if node.args[0] in steps:
                steps[node] = ResultOf(node)
            continue
        step = next(filter(None, (match(node) for match in MATCHERS)), None)
        if step is not None:
            steps[node] = step
    return steps


def _neighbours(node: Node, calls: dict[Node, FusedStep]) -> list[Node]:
    """Return the steps that a step may join: its operands, and for a reduction also other readers of its operands."""
    if calls[node].index_space is None:
        return node.all_input_nodes
    return [n for operand in node.all_input_nodes for n in (operand, *operand.users) if n is not node]


def _one_domain(a: Node, b: Node) -> bool:
    first, second = (n.val[0] if isinstance(n.val, tuple | list) else n.val for n in (a, b))
    if first.sizes != second.sizes or first.device is not second.device:
        return False
    return bool(first.strides == second.strides or (first.is_contiguous and second.is_contiguous))


def _gathers_inside(members: Sequence[FusedStep]) -> bool:
    """Return True if a kernel would gather elements of a value that it is still computing."""
    gathered = [node for step in members for node in step.gathered]
    return bool(gathered) and not {step.node for step in members}.isdisjoint(gathered)


def _exclude_each_other(members: Sequence[FusedStep]) -> bool:
    """Return True if a step excludes another one from its kernel."""
    return any(step.excludes(other) for step in members if step.has_exclusions for other in members)


def _has_sizes(node: Node, space: IndexSpace) -> bool:
    """Return True if a step has a result of whole rows."""
    specs = node.val if isinstance(node.val, tuple | list) else (node.val,)
    return any(spec is not None and spec.sizes == space.sizes for spec in specs)


class _Grouping:
    """Which steps are together; no group may have to run both before and after another step.

    Sets of steps are bits of integers, at the steps' indices in the graph.
    """

    def __init__(self, nodes: list[Node], calls: dict[Node, FusedStep]) -> None:
        self.nodes, self.calls = nodes, calls
        self.index_of = {node: i for i, node in enumerate(nodes)}
        self.members = [1 << i for i in range(len(nodes))]
        self.spaces: list[IndexSpace | None] = [
            None if (call := calls.get(n)) is None else call.index_space for n in nodes
        ]
        self.grouped = 0  # steps in groups of several
        self.before = [0] * len(nodes)
        for i, node in enumerate(nodes):
            for predecessor in before_each(node, nodes, i):
                j = self.index_of.get(predecessor)
                if j is not None:
                    self.before[i] |= self.before[j] | 1 << j

    def join(self, node: Node, candidates: list[Node]) -> None:
        """Fuse a step, whose users are not grouped yet, with those of its operands that it may join."""
        index = self.index_of[node]
        for candidate in candidates:
            candidate_index = self.index_of[candidate]
            together = self.members[index] | self.members[candidate_index]
            # A later reader of the same operand is not grouped yet.
            if (
                candidate_index > index
                or together == self.members[index]
                or not self._fits(index, candidate_index, together)
            ):
                continue
            # Outside steps that a member needs must not need a member.
            needed = self._needed(together) & ~together
            first = _first(together)
            later = bits_of(needed >> first << first)
            if not any(self.before[i] & together for i in (*later, *self._groups_before(first, needed))):
                self._unite(together, needed, self.spaces[index] or self.spaces[candidate_index])

    def unite(self, nodes: Sequence[Node]) -> None:
        """Fuse steps. No outside step may be between two of them."""
        together = sum(1 << self.index_of[node] for node in nodes)
        self._unite(together, self._needed(together) & ~together, None)

    def join_broadcast_rows(self, results: Sequence[Node]) -> None:
        """Put rows of tables that one step broadcasts together with it."""
        for i, node in enumerate(self.nodes):
            call, is_alone = self.calls.get(node), self.members[i] == 1 << i
            if call is None or not is_alone or len(node.users) != 1 or node in results:
                continue
            reader = self.calls.get(next(iter(node.users)))
            if reader is None or not reader.is_pointwise or not reader.is_in_order:
                continue
            reader_index = self.index_of[reader.node]
            space = call.space_for_reader(reader, self.spaces[reader_index])
            together = self.members[reader_index] | 1 << i
            if space is not None and together.bit_count() <= MAX_STEPS:
                # No other step is between the two.
                self._unite(together, self._needed(together) & ~together, space)

    def _fits(self, index: int, other_index: int, together: int) -> bool:
        """Return True if the groups of two steps have one index space."""
        spaces = {self.spaces[index], self.spaces[other_index]} - {None}
        is_part = not self.calls[self.nodes[index]].is_computed  # of a step with several results
        if not spaces and together.bit_count() > MAX_POINTWISE and not is_part:
            return False
        members = [self.calls[self.nodes[i]] for i in bits_of(together)]
        if not spaces:
            is_one = _one_domain(self.nodes[index], self.nodes[other_index])
            return is_one and not _gathers_inside(members) and not _exclude_each_other(members)
        if is_part:
            return True  # it is always in the kernel of that step
        space = next(iter(spaces))
        if len(spaces) > 1 or space is None or together.bit_count() > MAX_STEPS:
            return False
        if not all(step.is_supported_in(space) for step in members):
            return False
        inside = {step.node for step in members}
        summed = {node for step in members for node in step.column_sums.values()}
        for step in members:
            node = step.node
            if node in summed:
                continue
            if not summed.isdisjoint(node.all_input_nodes):
                return False  # Sums over rows are known after the last one.
            if any(not space.holds(spec.sizes) or spec.device is not space.device for spec in step.row_specs):
                return False
            if not all(step.reads_inside(n, space) for n in node.all_input_nodes if n in inside):
                return False
        return True

    def _needed(self, members: int) -> int:
        needed = 0
        for i in bits_of(members):
            needed |= self.before[i]
        return needed

    def _unite(self, together: int, needed: int, space: IndexSpace | None) -> None:
        for i in bits_of(together):
            self.members[i] = together
            self.spaces[i] = space
            self.before[i] = needed | together & ~(1 << i)
        self.grouped |= together
        first, every, before = _first(together), together | needed, self.before
        for i in range(first + 1, len(before)):
            if before[i] & together and not together >> i & 1:
                before[i] |= every
        for i in self._groups_before(first, ~together):
            if before[i] & together:
                for k in bits_of(self.members[i]):
                    before[k] |= every

    def _groups_before(self, first: int, steps: int) -> Iterator[int]:
        """Yield a step of each group of several that has one of some steps before the first step of another group.

        A step alone needs none that comes later in the graph, but a group may.
        """
        left = self.grouped & steps & ((1 << first) - 1)
        while left:
            i = _first(left)
            yield i
            left &= ~self.members[i]


def _first(steps: int) -> int:
    """Return the position of the first set bit."""
    return (steps & -steps).bit_length() - 1


def before_each(node: Node, nodes: list[Node], index: int) -> list[Node]:
    """Return all nodes that must run before a step of a graph at this index.

    These are its operands; for a random op also the previous random op; for a write all nodes before it.
    """
    if not node.is_impure:
        return node.all_input_nodes
    if node.target._entry.schema.is_mutable:
        return nodes[:index]
    draw = next((nodes[i] for i in range(index - 1, -1, -1) if nodes[i].is_impure), None)
    return [*node.all_input_nodes, *([] if draw is None else [draw])]


BITS_OF_BYTE = [[bit for bit in range(8) if byte >> bit & 1] for byte in range(256)]
"""Positions of the set bits of each byte."""


def bits_of(number: int) -> list[int]:
    """Return the positions of the set bits of a number.

    Example:
        >>> from triten.compiler.schedule import bits_of
        >>> bits_of(0b1010)
        [1, 3]
    """
    positions: list[int] = []
    for byte_index, byte in enumerate(number.to_bytes((number.bit_length() + 7) // 8, "little")):
        if byte:
            positions += [8 * byte_index + bit for bit in BITS_OF_BYTE[byte]]
    return positions


def _ordered(
    graph: Graph, nodes: list[Node], calls: dict[Node, FusedStep], grouping: _Grouping
) -> list[Step]:
    """Return the groups in topological order, as close to the graph's own order as possible.

    Random ops keep their order, and writes come after everything else.
    """
    index_of = grouping.index_of
    leader = {node: min(bits_of(grouping.members[index_of[node]])) for node in nodes}
    needs: dict[int, set[int]] = {leader[node]: set() for node in nodes}
    for i, node in enumerate(nodes):
        mine = leader[node]
        needs[mine] |= {leader[n] for n in before_each(node, nodes, i) if n in leader} - {mine}
    waiting = {group: len(before) for group, before in needs.items()}
    then: dict[int, list[int]] = {group: [] for group in needs}
    for group, before in needs.items():
        for each in before:
            then[each].append(group)
    ready = [group for group, count in waiting.items() if not count]
    heapq.heapify(ready)
    steps: list[Step] = []
    results = set(graph.output_node.all_input_nodes)
    while ready:
        group = heapq.heappop(ready)
        members = [nodes[i] for i in bits_of(grouping.members[group])]
        steps += _steps(members, calls, results, grouping.spaces[group])
        for each in then[group]:
            waiting[each] -= 1
            if not waiting[each]:
                heapq.heappush(ready, each)
    return steps


def _steps(
    members: list[Node],
    calls: dict[Node, FusedStep],
    results: set[Node],
    space: IndexSpace | None,
) -> list[Step]:
    """Make a group one kernel, several if it has too many operands, or calls if nothing can be fused."""
    if sum(node not in calls or calls[node].is_computed for node in members) < 2:
        return [OperatorCall(node) for node in members]
    inside = set(members)
    inputs = tuple(dict.fromkeys(n for node in members for n in node.all_input_nodes if n not in inside))
    outputs = tuple([n for n in members if n in results or any(user not in inside for user in n.users)])
    is_within = len(inputs) + len(outputs) <= MAX_OPERANDS
    if not is_within and all(_is_over(node, members[0].val, calls) for node in members):
        return [step for run in bounded_runs(members) for step in _steps(run, calls, results, None)]
    if not is_within or (space is not None and not _is_worth(members, calls, space)):
        runs = itertools.groupby(members, lambda node: calls[node].is_pointwise and node.val.sizes)
        return [step for key, run in runs for step in _run(list(run), calls, results, bool(key))]
    grouped = tuple([calls[node] for node in members])
    if isinstance(space, ReductionSpace):
        return [ReductionKernel(grouped, inputs, outputs, space)]
    if isinstance(space, RowSpace):
        return [RowsKernel(grouped, inputs, outputs, space)]
    return [FusedKernel(grouped, inputs, outputs)]


def _is_over(node: Node, spec: TensorSpec, calls: dict[Node, FusedStep]) -> bool:
    """Return True for a pointwise step over the index space of a tensor."""
    return calls[node].is_pointwise and bool(node.val.sizes == spec.sizes)


def _is_worth(members: Sequence[Node], calls: dict[Node, FusedStep], space: IndexSpace) -> bool:
    """Return True if fusing steps is faster.

    On the CPU, if no step makes whole rows, fusion saves no reads and eager kernels take longer blocks. Variances and
    argmax are exceptions: they read elements several times, or copy them.
    """
    if space.device.type != "cpu" or any(_has_sizes(node, space) for node in members):
        return True
    return any(calls[node].reads_repeatedly for node in members)


def _run(run: list[Node], calls: dict[Node, FusedStep], results: set[Node], is_pointwise: bool) -> list[Step]:
    """Return consecutive steps: a kernel for steps over one index space, calls for others."""
    return _steps(run, calls, results, None) if is_pointwise else [OperatorCall(node) for node in run]
