"""Broadcasting of shapes (ATen/ExpandUtils.cpp)."""

from __future__ import annotations

from collections.abc import Sequence


def infer_size(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """The shape that two shapes broadcast to. Raises RuntimeError where a dimension differs and neither is 1.

    >>> infer_size((3, 1), (4,))
    (3, 4)
    """
    rank = max(len(a), len(b))
    out = []
    for i in range(rank):
        x = a[i - rank + len(a)] if i - rank + len(a) >= 0 else 1
        y = b[i - rank + len(b)] if i - rank + len(b) >= 0 else 1
        if x != y and x != 1 and y != 1:
            raise RuntimeError(
                f"The size of tensor a ({x}) must match the size of tensor b ({y}) at non-singleton dimension {i}"
            )
        out.append(y if x == 1 else x)
    return tuple(out)


def broadcast_shapes(*shapes: Sequence[int] | int) -> tuple[int, ...]:
    """The shape that several shapes broadcast to (`torch.broadcast_shapes`).

    >>> broadcast_shapes((2, 1), (3,), 1)
    (2, 3)
    """
    out: tuple[int, ...] = ()
    for shape in shapes:
        out = infer_size(out, (shape,) if isinstance(shape, int) else shape)
    return out
