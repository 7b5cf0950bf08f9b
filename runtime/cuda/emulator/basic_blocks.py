"""Basic blocks of a function, and the order in which diverged threads run them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .ptx import Function, Immediate, Instruction, Operand, Register, Symbol

BRANCHES = ("bra", "ret", "exit", "bar", "barrier", "mbarrier", "setmaxnreg")
"""Opcodes that end a basic block: the next instruction may be for other threads, or later."""
_CHANGING = {"volatile", "relaxed", "acquire", "mmio"}
"""Qualifiers of loads that see concurrent stores of other threads (PTX ISA, ``ld``)."""
CLUSTER = -1
"""Number of the barrier of a cluster among the barriers of its blocks, which count from 0."""


class UntranslatableError(NotImplementedError):
    """Error: an instruction, or a form of it, is not emulated."""


@dataclass
class End:
    """End of a basic block.

    - `kind` is ``next``, ``bra``, ``ret``, ``bar`` or ``wait``.
    - `target` is the index of the branch target, `guard` the predicate register, with `negated`.
    - `barrier` has the number of a barrier, or `CLUSTER`, and its thread count, None for all threads.
    - `result` is the register that receives the success of a wait.
    - `registers` is the number of registers that a warp waits for.
    - `polls` marks a branch back to the head of a loop that reads what other threads change, so that it may spin.
    """

    kind: str
    target: int = -1
    guard: int = -1
    negated: bool = False
    instruction: Instruction | None = None
    barrier: tuple[Any, Any] = (0, None)
    result: int = -1
    registers: int = 0
    polls: bool = False


@dataclass
class BasicBlock:
    """Straight-line instructions, and the index of the next block."""

    index: int
    instructions: list[Instruction]
    end: End
    next: int = -1
    _forms: dict[bool, tuple[Callable[..., None], list[Instruction | None]]] = field(default_factory=dict)


def blocks_of(function: Function) -> list[BasicBlock]:
    """Return the basic blocks of a function, in an order in which diverged threads reconverge early."""
    register_index = {name: i for i, name in enumerate(function.registers)}
    code, labels = function.instructions, function.labels
    _check_cluster_barriers(function)
    starts = {0, *labels.values()}
    starts |= {i + 1 for i, each in enumerate(code) if each.opcode in BRANCHES and _ends(each)}
    ordered = sorted(start for start in starts if start < len(code))
    number = {start: i for i, start in enumerate(ordered)}
    blocks = []
    for i, start in enumerate(ordered):
        stop = ordered[i + 1] if i + 1 < len(ordered) else len(code)
        body = code[start:stop]
        end = End("next" if i + 1 < len(ordered) else "ret")
        if body and body[-1].opcode in BRANCHES and _ends(body[-1]):
            last, body = body[-1], body[:-1]
            end = _end(last, number, labels, len(ordered), register_index)
        blocks.append(BasicBlock(i, body, end))
    return in_order(blocks)


def _end(
    last: Instruction,
    number: dict[int, int],
    labels: dict[str, int],
    count: int,
    register_index: dict[str, int],
) -> End:
    end = End(last.opcode, instruction=last)
    if last.opcode == "exit":
        end.kind = "ret"
    if last.opcode == "bra":
        target = last.operands[0]
        assert isinstance(target, Symbol)
        # A label after the last instruction is the end of the function.
        end.target = number.get(labels[target.name], count)
    if last.opcode == "barrier" and last.modifiers[0] == "cluster":
        end.kind, end.barrier = "bar", (CLUSTER, None)
    elif last.opcode in ("bar", "barrier"):
        if last.modifiers[0] not in ("sync", "arrive"):
            raise UntranslatableError(f"PTX line {last.line}: '{last.name}' is not emulated")
        end.kind = "bar"
        which, *threads = last.operands
        end.barrier = (_plain(which, register_index), _plain(threads[0], register_index) if threads else None)
    if last.opcode == "mbarrier":
        end.kind = "wait"
        end.result = register_index[last.operands[0].name]  # type: ignore[union-attr]
    if last.opcode == "setmaxnreg":
        end.kind, end.registers = "wait", _plain(last.operands[0], register_index)
    if last.guard is not None:
        end.guard, end.negated = register_index[last.guard[0].name], last.guard[1]
    return end


def _plain(operand: Operand, register_index: dict[str, int]) -> Any:
    if isinstance(operand, Immediate):
        return operand.value
    assert isinstance(operand, Register)
    return ("register", register_index[operand.name])


def _ends(instruction: Instruction) -> bool:
    if instruction.opcode == "mbarrier":
        return instruction.modifiers[0] in ("try_wait", "test_wait")
    if instruction.opcode == "setmaxnreg":
        return instruction.modifiers[0] == "inc"
    if instruction.opcode == "barrier" and instruction.modifiers[0] == "cluster":
        return instruction.modifiers[1] == "wait"
    return instruction.opcode not in ("bar", "barrier") or "warp" not in instruction.modifiers


def _check_cluster_barriers(function: Function) -> None:
    """Raise UntranslatableError unless each arrival at a cluster's barrier is followed by its wait."""
    arrived = False
    for i, each in enumerate(function.instructions):
        is_cluster = each.opcode == "barrier" and each.modifiers[0] == "cluster"
        waits = is_cluster and each.modifiers[1] == "wait"
        if (
            waits != arrived
            or (is_cluster and each.guard is not None)
            or (waits and i in function.labels.values())
        ):
            raise UntranslatableError(
                f"kernel '{function.name}', PTX line {each.line}: '{each.name}': an arrival at the barrier of a "
                "cluster is emulated only if the wait follows at once"
            )
        arrived = is_cluster and not waits


def in_order(blocks: list[BasicBlock]) -> list[BasicBlock]:
    """Order blocks topologically, with joins after their predecessors and exits after their loop.

    Diverged threads then reconverge at the earliest possible place, although compilers emit blocks in any order. A
    back edge leads to the head of a loop (Collange, "Stack-less SIMT reconvergence at low cost", 2011).
    """
    count = len(blocks)
    leads: list[list[int]] = []
    for block in blocks:
        end = block.end
        successors = [end.target] if end.kind == "bra" else []
        if end.kind in ("next", "bar", "wait") or end.guard >= 0:
            successors.append(block.index + 1)
        leads.append([each for each in successors if each < count])
    order = _ordered(list(range(count)), 0, leads) if count else []
    new_index = {old: new for new, old in enumerate(order)}
    new_index[count] = count
    for block in blocks:
        block.next = new_index.get(block.index + 1, count)
        if block.end.kind == "bra":
            block.end.target = new_index[block.end.target]
    reordered = [blocks[old] for old in order]
    for new, block in enumerate(reordered):
        block.index = new
    for block in reordered:
        end = block.end
        if end.kind == "bra" and end.target <= block.index:
            end.polls = any(_polls(each) for each in reordered[end.target : block.index + 1])
    return reordered


def _polls(block: BasicBlock) -> bool:
    """Return True if a basic block reads what other threads may change at any time."""
    return any(
        each.opcode == "atom"
        or (each.opcode == "ld" and not _CHANGING.isdisjoint(m.split("::")[0] for m in each.modifiers))
        for each in block.instructions
    )


def _ordered(nodes: list[int], head: int, leads: list[list[int]]) -> list[int]:
    """Return the nodes reachable from `head` in topological order, with each loop kept together."""
    inside = set(nodes)
    parts = _components(head, lambda node: [successor for successor in leads[node] if successor in inside])
    order: list[int] = []
    for part in parts:
        if len(part) == 1:
            order += part
            continue
        members = set(part)
        # The head of a loop is its entry.
        entered = [successor for node in order for successor in leads[node] if successor in members]
        first = head if head in members else (entered or part)[0]
        without = [[successor for successor in each if successor != first] for each in leads]
        order += _ordered(part, first, without)
    return order


def _components(head: int, leads: Callable[[int], list[int]]) -> list[list[int]]:
    """Return the strongly connected components reachable from `head`, in topological order (Tarjan, 1972)."""
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    components: list[list[int]] = []
    work = [(head, iter(leads(head)))]
    number[head] = low[head] = 0
    stack.append(head)
    on_stack.add(head)
    while work:
        node, following = work[-1]
        for successor in following:
            if successor not in number:
                number[successor] = low[successor] = len(number)
                stack.append(successor)
                on_stack.add(successor)
                work.append((successor, iter(leads(successor))))
                break
            if successor in on_stack:
                low[node] = min(low[node], number[successor])
        else:
            work.pop()
            if work:
                low[work[-1][0]] = min(low[work[-1][0]], low[node])
            if low[node] == number[node]:
                position = stack.index(node)
                part, stack = stack[position:], stack[:position]
                on_stack.difference_update(part)
                components.append(part)
    return components[::-1]
