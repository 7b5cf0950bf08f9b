"""Small calls whose host time is compared: statements in PyTorch's names, which triten shares.

A statement may use `tt` (the library), `F` (its `nn.functional`) and the operands of `OPERANDS` by name. If
NumPy has the same call, `numpy` is its form over `np` and the same operands.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..workload import Operand, normal

CALL_BAR, VIEW_BAR, NEW_SHAPE_BAR = 2.0, 0.8, 10.0


@dataclass(frozen=True)
class SmallCall:
    """A call: its statement for each library, what is compared and cleared after it, and the largest ratio allowed."""

    name: str
    group: str
    statement: str
    numpy: str = ""
    bar: float = CALL_BAR
    result: str = ""
    reset: str = ""
    compared: bool = True
    counted: bool = True


OPERANDS = {
    "a": Operand(normal(16, 16)),
    "b": Operand(normal(16, 16, scale=0.5)),
    "c": Operand(normal(16, 16)),
    "w": Operand(normal(16, 16), requires_grad=True),
    "row": Operand(normal(1, 16)),
    "vector": Operand(normal(16)),
    "big": Operand(normal(256, 256)),
    "stacks": Operand(normal(2, 4, 16, 16)),
    "positive": Operand(lambda: np.exp(normal(16, 16)())),
    "number": Operand(lambda: np.array(2.5, np.float32)),
    "mask": Operand(lambda: normal(16, 16)() > 0),
    "index": Operand(lambda: np.array([3, 1, 4, 1, 5], np.int64)),
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
POINTWISE, REDUCTIONS, FACTORIES = "pointwise", "reductions and products", "factories and copies"

SMALL_CALLS = (
    SmallCall("a + b", POINTWISE, "a + b", "a + b", bar=0.6),
    SmallCall("a * 2.0", POINTWISE, "a * 2.0", "a * 2.0"),
    SmallCall("relu", POINTWISE, "tt.relu(a)", "np.maximum(a, 0)"),
    SmallCall("exp", POINTWISE, "tt.exp(a)", "np.exp(a)"),
    SmallCall("sigmoid", POINTWISE, "tt.sigmoid(a)"),
    SmallCall("a + vector", POINTWISE, "a + vector", "a + vector"),
    SmallCall("big + big (256x256)", POINTWISE, "big + big", "big + big"),
    SmallCall("w + b (w requires grad)", POINTWISE, "w + b"),
    SmallCall("w * 2.0 (w requires grad)", POINTWISE, "w * 2.0"),
    SmallCall("relu (w requires grad)", POINTWISE, "tt.relu(w)"),
    SmallCall("c.add_(b)", POINTWISE, "c.add_(b)", "np.add(c, b, out=c)", compared=False),
    SmallCall(
        "c.addcdiv_(a, positive)", POINTWISE, "c.addcdiv_(a, positive, value=-0.1)", compared=False,
    ),
    SmallCall("add(a, b, out=c)", POINTWISE, "tt.add(a, b, out=c)", "np.add(a, b, out=c)"),
    SmallCall("where", POINTWISE, "tt.where(mask, a, b)", "np.where(mask, a, b)"),
    SmallCall("a.sum()", REDUCTIONS, "a.sum()", "a.sum()"),
    SmallCall("a.sum(0)", REDUCTIONS, "a.sum(0)", "a.sum(0)"),
    SmallCall("a.mean()", REDUCTIONS, "a.mean()", "a.mean()"),
    SmallCall("w.sum() (w requires grad)", REDUCTIONS, "w.sum()"),
    SmallCall("a.max()", REDUCTIONS, "a.max()", "a.max()"),
    SmallCall("a.var(-1)", REDUCTIONS, "a.var(-1)", "a.var(-1, ddof=1)"),
    SmallCall("a @ b", REDUCTIONS, "a @ b", "a @ b"),
    SmallCall("stacks @ stacks", REDUCTIONS, "stacks @ stacks", "stacks @ stacks"),
    SmallCall("linear", REDUCTIONS, "F.linear(a, b, vector)"),
    SmallCall("einsum", REDUCTIONS, "tt.einsum('ij,kj->ik', a, b)"),
    SmallCall("w @ b (w requires grad)", REDUCTIONS, "w @ b"),
    SmallCall("softmax", REDUCTIONS, "tt.softmax(a, -1)"),
    SmallCall("layer_norm", REDUCTIONS, "F.layer_norm(a, (16,))"),
    SmallCall("max_pool2d 2x3x12x12", REDUCTIONS, "F.max_pool2d(images, 2)"),
    SmallCall("conv2d 2x3x12x12", REDUCTIONS, "F.conv2d(images, kernel)"),
    SmallCall("number.item()", FACTORIES, "number.item()", "number.item()", counted=False),
    SmallCall("zeros", FACTORIES, "tt.zeros(16, 16)", "np.zeros((16, 16), np.float32)"),
    SmallCall("empty", FACTORIES, "tt.empty(16, 16)", "np.empty((16, 16), np.float32)", compared=False),
    SmallCall("full", FACTORIES, "tt.full((16, 16), 2.0)", "np.full((16, 16), 2.0, np.float32)"),
    SmallCall("tensor of a list", FACTORIES, "tt.tensor([1.0, 2.0, 3.0])", "np.array([1.0, 2.0, 3.0], np.float32)"),
    SmallCall("arange", FACTORIES, "tt.arange(16)", "np.arange(16)"),
    SmallCall("a.clone()", FACTORIES, "a.clone()", "a.copy()"),
    SmallCall("a.to(float64)", FACTORIES, "a.to(tt.float64)", "a.astype(np.float64)"),
    SmallCall("cat", FACTORIES, "tt.cat((a, b))", "np.concatenate((a, b))"),
    SmallCall("stack", FACTORIES, "tt.stack((a, b))", "np.stack((a, b))"),
    SmallCall("embedding", FACTORIES, "F.embedding(index, a)", "a[index]"),
    SmallCall("a[index]", FACTORIES, "a[index]", "a[index]"),
    SmallCall("a.T", "views", "a.T", "a.T", bar=VIEW_BAR),
    SmallCall("a.view(4, 64)", "views", "a.view(4, 64)", "a.reshape(4, 64)", bar=VIEW_BAR),
    SmallCall("a.reshape(4, 64)", "views", "a.reshape(4, 64)", "a.reshape(4, 64)", bar=VIEW_BAR),
    SmallCall("a.split(4)", "views", "a.split(4)", result="a.split(4)[1]", bar=VIEW_BAR),
    SmallCall("a[3:9]", "views", "a[3:9]", "a[3:9]", bar=VIEW_BAR),
    SmallCall("a[3]", "views", "a[3]", "a[3]", bar=VIEW_BAR),
    SmallCall("row.expand(16, 16)", "views", "row.expand(16, 16)", bar=VIEW_BAR),
    SmallCall("a.transpose(0, 1)", "views", "a.transpose(0, 1)", "a.transpose(1, 0)", bar=VIEW_BAR),
    SmallCall("a.permute(1, 0)", "views", "a.permute(1, 0)", "a.transpose(1, 0)", bar=VIEW_BAR),
    SmallCall("a.unsqueeze(0)", "views", "a.unsqueeze(0)", "a[None]", bar=VIEW_BAR),
    SmallCall("w.view(4, 64) (w requires grad)", "views", "w.view(4, 64)"),
    SmallCall(
        "(w * b).sum().backward()", "gradients", "(w * b).sum().backward()", bar=0.4, result="w.grad",
        reset="w.grad = None",
    ),
    SmallCall("2-layer MLP, cross_entropy", "gradients", MLP),
    SmallCall(
        "the same with backward()", "gradients", f"{MLP}.backward()", result="(w1.grad, b1.grad, w2.grad, b2.grad)",
        reset="w1.grad = b1.grad = w2.grad = b2.grad = None",
    ),
)  # fmt: skip

# Each is run on shapes that the process has not seen before; `a`, `b`, `w` and `shape` are new every time.
NEW_SHAPE_CALLS = tuple(
    SmallCall(name, "new shapes", statement, numpy, bar=NEW_SHAPE_BAR)
    for name, statement, numpy in (
        ("a + b", "a + b", "a + b"),
        ("a + a[:1]", "a + a[:1]", "a + a[:1]"),
        ("a * 2.0", "a * 2.0", "a * 2.0"),
        ("a.add_(b)", "a.add_(b)", "np.add(a, b, out=a)"),
        ("a.relu()", "a.relu()", "np.maximum(a, 0)"),
        ("a.sum(0)", "a.sum(0)", "a.sum(0)"),
        ("a @ b.mT", "a @ b.mT", ""),
        ("softmax", "tt.softmax(a, -1)", ""),
        ("cat", "tt.cat((a, b))", "np.concatenate((a, b))"),
        ("a.transpose(0, 1)", "a.transpose(0, 1)", ""),
        ("a.view(-1)", "a.view(-1)", ""),
        ("a[1:]", "a[1:]", ""),
        ("ones(shape)", "tt.ones(shape)", "np.ones(shape, np.float32)"),
        ("(w * b).sum().backward()", "(w * b).sum().backward()", ""),
    )
)
