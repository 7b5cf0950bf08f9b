"""The small calls whose host time is compared: statements in PyTorch's names, which triten's are too.

A statement may use `tt` (the library), `F` (its `nn.functional`) and the operands of `OPERANDS` by name;
where NumPy has the same call, `numpy` is that, over `np` and the same operands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

VIEW_BAR = 0.8


@dataclass(frozen=True)
class SmallCall:
    """A row: its statement for each library, and the largest ratio of triten's time to PyTorch's allowed."""

    name: str
    group: str
    statement: str
    numpy: str | None = None
    bar: float | None = None


@dataclass(frozen=True)
class Operand:
    """How to make a tensor: the array, the same for all libraries, and whether it requires grad."""

    array: Callable[[], np.ndarray]
    requires_grad: bool = False


def normal(*shape: int, scale: float = 1.0) -> Callable[[], np.ndarray]:
    """A maker of float32 arrays; every call gives a new array with the same values."""
    return lambda: (np.random.default_rng(len(shape)).standard_normal(shape) * scale).astype(np.float32)


OPERANDS = {
    "a": Operand(normal(16, 16)),
    "b": Operand(normal(16, 16, scale=0.5)),
    "c": Operand(normal(16, 16)),
    "w": Operand(normal(16, 16), requires_grad=True),
    "row": Operand(normal(1, 16)),
    "mask": Operand(lambda: normal(16, 16)() > 0),
    "x": Operand(normal(32, 64)),
    "w1": Operand(normal(64, 64, scale=0.1), requires_grad=True),
    "b1": Operand(normal(64), requires_grad=True),
    "w2": Operand(normal(10, 64, scale=0.1), requires_grad=True),
    "b2": Operand(normal(10), requires_grad=True),
    "target": Operand(lambda: np.arange(32, dtype=np.int64) % 10),
    "images": Operand(normal(2, 3, 12, 12)),
    "kernel": Operand(normal(4, 3, 3, 3)),
}

MLP = "F.cross_entropy(F.linear(F.relu(F.linear(x, w1, b1)), w2, b2), target)"

NEW_SHAPE_BAR = 10.0

SMALL_CALLS = (
    SmallCall("a + b", "pointwise", "a + b", "a + b", bar=0.6),
    SmallCall("a * 2.0", "pointwise", "a * 2.0", "a * 2.0"),
    SmallCall("w + b (w requires grad)", "pointwise", "w + b"),
    SmallCall("a.add_(b)", "pointwise", "a.add_(b)", "np.add(a, b, out=a)"),
    SmallCall("add(a, b, out=c)", "pointwise", "tt.add(a, b, out=c)", "np.add(a, b, out=c)"),
    SmallCall("where", "pointwise", "tt.where(mask, a, b)", "np.where(mask, a, b)"),
    SmallCall("a.sum()", "reductions and products", "a.sum()", "a.sum()"),
    SmallCall("a @ b", "reductions and products", "a @ b", "a @ b"),
    SmallCall("softmax", "reductions and products", "tt.softmax(a, -1)"),
    SmallCall("layer_norm", "reductions and products", "F.layer_norm(a, (16,))"),
    SmallCall("conv2d 2x3x12x12", "reductions and products", "F.conv2d(images, kernel)"),
    SmallCall("zeros", "factories and copies", "tt.zeros(16, 16)", "np.zeros((16, 16), np.float32)"),
    SmallCall("empty", "factories and copies", "tt.empty(16, 16)", "np.empty((16, 16), np.float32)"),
    SmallCall("a.clone()", "factories and copies", "a.clone()", "a.copy()"),
    SmallCall("cat", "factories and copies", "tt.cat((a, b))", "np.concatenate((a, b))"),
    SmallCall("stack", "factories and copies", "tt.stack((a, b))", "np.stack((a, b))"),
    SmallCall("a.T", "views", "a.T", "a.T", bar=VIEW_BAR),
    SmallCall("a.view(4, 64)", "views", "a.view(4, 64)", "a.reshape(4, 64)", bar=VIEW_BAR),
    SmallCall("a[3:9]", "views", "a[3:9]", "a[3:9]", bar=VIEW_BAR),
    SmallCall("a[3]", "views", "a[3]", "a[3]", bar=VIEW_BAR),
    SmallCall("row.expand(16, 16)", "views", "row.expand(16, 16)", bar=VIEW_BAR),
    SmallCall("a.transpose(0, 1)", "views", "a.transpose(0, 1)", "a.transpose(1, 0)", bar=VIEW_BAR),
    SmallCall("a.permute(1, 0)", "views", "a.permute(1, 0)", "a.transpose(1, 0)", bar=VIEW_BAR),
    SmallCall("a.unsqueeze(0)", "views", "a.unsqueeze(0)", "a[None]", bar=VIEW_BAR),
    SmallCall("(w * b).sum().backward()", "gradients", "(w * b).sum().backward(); w.grad = None", bar=0.4),
    SmallCall("2-layer MLP, cross_entropy", "gradients", MLP),
    SmallCall(
        "the same with backward()",
        "gradients",
        f"{MLP}.backward(); w1.grad = b1.grad = w2.grad = b2.grad = None",
    ),
)

# Each is run on shapes that the process has not seen before; `a`, `b`, `w` and `shape` are new every time.
NEW_SHAPE_CALLS = (
    SmallCall("a + b", "new shapes", "a + b", "a + b", bar=NEW_SHAPE_BAR),
    SmallCall("a + a[:1]", "new shapes", "a + a[:1]", "a + a[:1]", bar=NEW_SHAPE_BAR),
    SmallCall("a * 2.0", "new shapes", "a * 2.0", "a * 2.0", bar=NEW_SHAPE_BAR),
    SmallCall("a.add_(b)", "new shapes", "a.add_(b)", "np.add(a, b, out=a)", bar=NEW_SHAPE_BAR),
    SmallCall("a.relu()", "new shapes", "a.relu()", "np.maximum(a, 0)", bar=NEW_SHAPE_BAR),
    SmallCall("a.sum(0)", "new shapes", "a.sum(0)", "a.sum(0)", bar=NEW_SHAPE_BAR),
    SmallCall("a @ b.mT", "new shapes", "a @ b.mT", bar=NEW_SHAPE_BAR),
    SmallCall("softmax", "new shapes", "tt.softmax(a, -1)", bar=NEW_SHAPE_BAR),
    SmallCall("cat", "new shapes", "tt.cat((a, b))", "np.concatenate((a, b))", bar=NEW_SHAPE_BAR),
    SmallCall("a.transpose(0, 1)", "new shapes", "a.transpose(0, 1)", bar=NEW_SHAPE_BAR),
    SmallCall("a.view(-1)", "new shapes", "a.view(-1)", bar=NEW_SHAPE_BAR),
    SmallCall("a[1:]", "new shapes", "a[1:]", bar=NEW_SHAPE_BAR),
    SmallCall("ones(shape)", "new shapes", "tt.ones(shape)", "np.ones(shape, np.float32)", bar=NEW_SHAPE_BAR),
    SmallCall("(w * b).sum().backward()", "new shapes", "(w * b).sum().backward()", bar=NEW_SHAPE_BAR),
)
