"""Einstein summation: the equation, and its contraction pair by pair (ATen/native/Linear.cpp)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.mode_stack import sees_whole
from ..generated import functions as ops
from ..plans.host_kernel import host_kernel
from .einsum_pairs import contracted

if TYPE_CHECKING:
    from ..tensor import Tensor

ELLIPSIS = "..."
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class Equation(NamedTuple):
    """Labels of each operand and of the result; the dimensions of an ellipsis have negative labels."""

    operands: tuple[tuple[Any, ...], ...]
    output: tuple[Any, ...]


def parse_equation(equation: str, ranks: Sequence[int]) -> Equation:
    """Parse the equation for operands of these ranks. Raises RuntimeError if it is malformed or does not fit."""
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) < len(ranks):
        raise RuntimeError("einsum(): more operands were provided than specified in the equation")
    if len(terms) > len(ranks):
        raise RuntimeError("einsum(): fewer operands were provided than specified in the equation")
    split = []
    start = 0
    for i, term in enumerate(terms):
        split.append(_labels(term, start, f"operand {i}", "for which an ellipsis was already found"))
        start += len(term) + 1
    widest = 0
    for i, (labels, rank) in enumerate(zip(split, ranks, strict=True)):
        named = len(labels) - (ELLIPSIS in labels)
        if ELLIPSIS in labels:
            if named > rank:
                raise RuntimeError(
                    f"einsum(): the number of subscripts in the equation ({named}) is more than the number of "
                    f"dimensions ({rank}) for operand {i}"
                )
            widest = max(widest, rank - named)
        elif named != rank:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) does not match the number of "
                f"dimensions ({rank}) for operand {i} and no ellipsis was given"
            )
    covered = tuple(range(-widest, 0))
    operands = []
    for labels, rank in zip(split, ranks, strict=True):
        missing = rank - len(labels) + 1
        own = covered[len(covered) - missing :] if missing else ()
        operands.append(tuple(x for label in labels for x in (own if label == ELLIPSIS else (label,))))
    if arrow:
        output_labels = _labels(
            right, len(left) + len(arrow), "output", "but an ellipsis (...) was already found"
        )
        output = tuple(x for label in output_labels for x in (covered if label == ELLIPSIS else (label,)))
        known_labels = {label for labels in operands for label in labels}
        for label in output_labels:
            if label == ELLIPSIS:
                continue
            if output_labels.count(label) > 1:
                raise RuntimeError(f"einsum(): output subscript {label} appears more than once in the output")
            if label not in known_labels:
                raise RuntimeError(
                    f"einsum(): output subscript {label} does not appear in the equation for any input operand"
                )
        return Equation(tuple(operands), output)
    counts: dict[str, int] = {}
    for labels in split:
        for label in labels:
            if label != ELLIPSIS:
                counts[label] = counts.get(label, 0) + 1
    once = sorted(label for label, count in counts.items() if count == 1)
    return Equation(tuple(operands), (*covered, *once))


def _labels(term: str, start: int, where: str, repeated: str) -> list[str]:
    """Return the labels of one term, which starts at index `start` of the equation.

    `where` and `repeated` name the term and a second ellipsis in errors.
    """
    labels: list[str] = []
    i = 0
    while i < len(term):
        if term[i] == " ":
            i += 1
            continue
        if term[i] == "." and ELLIPSIS in labels:
            raise RuntimeError(f"einsum(): found '.' for {where} {repeated}")
        if term.startswith(ELLIPSIS, i):
            labels.append(ELLIPSIS)
            i += 3
            continue
        if term[i] == ".":
            raise RuntimeError(f"einsum(): found '.' for {where} that is not part of any ellipsis (...)")
        if term[i] not in LETTERS:
            raise RuntimeError(
                f"einsum(): invalid subscript given at index {start + i} in the equation string, subscripts must be in "
                "[a-zA-Z]"
            )
        labels.append(term[i])
        i += 1
    return labels


@host_kernel("einsum", "mul.Tensor", "mm", "bmm")
def einsum(equation: str, tensors: Sequence[Tensor], path: Sequence[int] | None) -> Tensor:
    """Compute `torch.einsum`: contract from left to right, or in the order of `path` (opt_einsum's pairs of
    positions).
    """
    if not tensors:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list"
        )
    parsed = parse_equation(equation, [x._spec.ndim for x in tensors])
    pending = [
        _with_diagonals(i, x, labels)
        for i, (x, labels) in enumerate(zip(tensors, parsed.operands, strict=True))
    ]
    sizes: dict[Any, int] = {}
    for i, (x, labels) in enumerate(pending):
        for label, size in zip(labels, x._spec.sizes, strict=True):
            before = sizes.setdefault(label, size)
            if before == 1:
                sizes[label] = size
            elif size not in (1, before):
                if isinstance(label, int):
                    first = min(x for x in labels if isinstance(x, int))
                    raise RuntimeError(
                        f"einsum(): dimension {label - first} covered by ellipsis in operand {i} has size {size} which "
                        f"does not broadcast with previously seen ellipsis with size {before} for the respective "
                        "dimension"
                    )
                raise RuntimeError(
                    f"einsum(): subscript {label} has size {size} for operand {i} which does not broadcast with "
                    f"previously seen size {before}"
                )
    steps = _pairs(path, len(pending))
    if sees_whole():
        return contracted(pending, parsed.output, steps, path is not None)
    for first, second in steps:
        low, high = sorted((first, second))
        right = pending.pop(high)
        left = pending.pop(low)
        needed = {*parsed.output, *(label for _, labels in pending for label in labels)}
        pending.append(_contract(left, right, needed, parsed.output))
    (x, labels) = pending[0]
    x, labels = _summed(x, labels, set(parsed.output))
    present = [label for label in parsed.output if label in labels]
    ordered: Tensor = x.permute([labels.index(label) for label in present])
    if len(present) == len(parsed.output):
        return ordered
    return ordered.reshape([sizes[label] if label in labels else 1 for label in parsed.output])


def _pairs(path: Sequence[int] | None, count: int) -> list[tuple[int, int]]:
    if path is None:
        # Contract the result so far, which is last, with the next operand.
        return [(0, 1), *((left - 1, 0) for left in range(count - 1, 1, -1))] if count > 1 else []
    if len(path) != 2 * (count - 1):
        raise RuntimeError(
            f"einsum(): expected contraction path given in path parameter to have length {2 * (count - 1)} but got "
            f"{len(path)}"
        )
    pairs = list(zip(path[::2], path[1::2], strict=True))
    for left, (first, second) in zip(range(count, 1, -1), pairs, strict=True):
        if first == second or not (0 <= first < left and 0 <= second < left):
            raise RuntimeError(
                f"einsum(): invalid contraction path ({first}, {second}) for {left} operands that are left"
            )
    return pairs


def _with_diagonals(number: int, x: Tensor, labels: tuple[Any, ...]) -> tuple[Tensor, tuple[Any, ...]]:
    """Return the operand with each label once: a repeated label is a diagonal."""
    unique_labels = list(labels)
    for label in labels:
        while unique_labels.count(label) > 1:
            first = unique_labels.index(label)
            second = unique_labels.index(label, first + 1)
            a, b = x._spec.sizes[first], x._spec.sizes[second]
            if a != b:
                raise RuntimeError(
                    f"einsum(): subscript {label} is repeated for operand {number} but the sizes don't match, "
                    f"{b} != {a}"
                )
            x = ops.movedim(ops.diagonal(x, 0, first, second), -1, first)
            del unique_labels[second]
    return x, tuple(unique_labels)


def _summed(x: Tensor, labels: tuple[Any, ...], needed: set[Any]) -> tuple[Tensor, tuple[Any, ...]]:
    dims = [d for d, label in enumerate(labels) if label not in needed]
    if not dims:
        return x, labels
    sizes = x._spec.sizes
    # The sum over one element is the element, in its own dtype; a sum of integers has another dtype.
    for d in [d for d in reversed(dims) if x._spec.sizes[d] == 1]:
        x = x.squeeze(d)
    left = tuple(label for d, label in enumerate(labels) if d not in dims or sizes[d] != 1)
    dims = [d for d, label in enumerate(left) if label not in needed]
    return (ops.sum(x, dims) if dims else x), tuple(label for label in labels if label in needed)


def _contract(
    left: tuple[Tensor, tuple[Any, ...]],
    right: tuple[Tensor, tuple[Any, ...]],
    needed: set[Any],
    output: Sequence[Any],
) -> tuple[Tensor, tuple[Any, ...]]:
    """Contract two operands: sum labels that occur only here, and use one matmul for the rest."""
    # Labels that come first in the output become rows, so that the matmul's result has the output's layout.
    own = [[output.index(label) for label in labels if label in output] for labels in (
        [label for label in left[1] if label not in right[1]], [label for label in right[1] if label not in left[1]]
    )]  # fmt: skip
    if own[0] and own[1] and max(own[1]) < min(own[0]):
        left, right = right, left
    (a, la), (b, lb) = left, right
    a, la = _summed(a, la, needed | set(lb))
    b, lb = _summed(b, lb, needed | set(la))
    shared = [label for label in la if label in lb]
    # A size of 1 that broadcasts is not a shared dimension: its operand has nothing to sum.
    for label in list(shared):
        left_size, right_size = a._spec.sizes[la.index(label)], b._spec.sizes[lb.index(label)]
        if left_size == right_size:
            continue
        shared.remove(label)
        if left_size == 1:
            a, la = a.squeeze(la.index(label)), tuple(x for x in la if x != label)
            if label not in needed:
                b, lb = _summed(b, lb, set(lb) - {label})
        else:
            b, lb = b.squeeze(lb.index(label)), tuple(x for x in lb if x != label)
            if label not in needed:
                a, la = _summed(a, la, set(la) - {label})
    batch = [label for label in shared if label in needed]
    inner = [label for label in shared if label not in needed]
    rows = [label for label in la if label not in shared]
    columns = [label for label in lb if label not in shared]

    def grouped(x: Tensor, labels: tuple[Any, ...], groups: Sequence[Sequence[Any]]) -> Tensor:
        order = [labels.index(label) for group in groups for label in group]
        own = x._spec.sizes
        shape = [math.prod(own[labels.index(label)] for label in group) for group in groups]
        return x.permute(order).reshape(shape)

    extent = {label: a._spec.sizes[la.index(label)] for label in la}
    extent |= {label: b._spec.sizes[lb.index(label)] for label in lb if label not in extent}
    if not inner and not rows and not columns:
        product = ops.mul(grouped(a, la, [batch]), grouped(b, lb, [batch]))
    elif not inner:
        product = ops.mul(grouped(a, la, [batch, rows, ()]), grouped(b, lb, [batch, (), columns]))
    elif not batch:
        product = ops.mm(grouped(a, la, [rows, inner]), grouped(b, lb, [inner, columns]))
    else:
        product = ops.bmm(grouped(a, la, [batch, rows, inner]), grouped(b, lb, [batch, inner, columns]))
    labels = (*batch, *rows, *columns)
    return product.reshape([extent[label] for label in labels]), labels
