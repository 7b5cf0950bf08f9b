"""Convolutions and pooling, forward and with both gradients."""

from __future__ import annotations

from collections.abc import Iterator

from ..workload import Operand, Scale, Workload, bar, normal

BAR = 2.0
# name: batch, channels, side, filters, filter's side, stride, groups
LAYERS = {
    "3x3": (8, 64, 56, 64, 3, 1, 1),
    "3x3, stride 2": (8, 64, 56, 128, 3, 2, 1),
    "1x1": (8, 64, 56, 128, 1, 1, 1),
    "7x7, stride 2, of images": (8, 3, 112, 64, 7, 2, 1),
    "depthwise 3x3": (8, 64, 56, 64, 3, 1, 64),
}


def workloads(scale: Scale) -> Iterator[Workload]:
    """Yield each layer forward, and with its backward pass; then pooling and other numbers of dimensions."""
    for name, (batch, channels, side, filters, kernel, stride, groups) in LAYERS.items():
        batch, side = scale.side(batch, 2, 1), scale.side(side, side // 2, 8)
        if scale.rehearsal:
            channels, filters, groups = min(channels, 4), min(filters, 4), 4 if groups > 1 else 1
        size = f"{batch}x{channels}x{side}x{side}"
        images, weights = (
            normal(batch, channels, side, side),
            normal(filters, channels // groups, kernel, kernel),
        )
        call = f"F.conv2d(x, w, None, {stride}, {kernel // 2}, 1, {groups})"
        operands = {"x": Operand(images), "w": Operand(weights)}
        yield Workload("conv", "conv2d", f"conv2d {name}", size, "float32", call, "", operands, bar=bar(BAR))
        operands = {"x": Operand(images, requires_grad=True), "w": Operand(weights, requires_grad=True)}
        yield Workload(
            "conv", "conv2d", f"conv2d {name}", size, "float32", f"{call}.sum().backward()", "", operands,
            direction="both", result="(x.grad, w.grad)", reset="x.grad = w.grad = None", bar=bar(BAR),
        )  # fmt: skip
    batch, side = scale.side(8, 2, 1), scale.side(56, 28, 8)
    x = Operand(normal(batch, scale.side(64, 64, 4), side, side))
    size = f"{batch}x{scale.side(64, 64, 4)}x{side}x{side}"
    for operator, statement in (
        ("max_pool2d", "F.max_pool2d(x, 3, 2, 1)"),
        ("avg_pool2d", "F.avg_pool2d(x, 2)"),
        ("interpolate", "F.interpolate(x, scale_factor=2.0, mode='bilinear')"),
    ):
        yield Workload("conv", operator, operator, size, "float32", statement, "", {"x": x}, bar=bar(BAR))
    long, channels = scale.side(4096, 1024, 32), scale.side(64, 32, 4)
    operands = {"x": Operand(normal(batch, channels, long)), "w": Operand(normal(channels, channels, 5))}
    yield Workload(
        "conv", "conv1d", "conv1d of 5", f"{batch}x{channels}x{long}", "float32", "F.conv1d(x, w, None, 1, 2)", "",
        operands, bar=bar(BAR),
    )  # fmt: skip
