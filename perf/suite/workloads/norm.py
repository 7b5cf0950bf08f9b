"""Softmax, normalisations and the losses of classifiers, forward and backward."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..workload import Operand, Scale, Workload, normal


def workloads(scale: Scale) -> Iterator[Workload]:
    """Over rows of two lengths; over images."""
    for rows, columns in (
        (scale.side(4096, 512, 4), scale.side(1024, 512, 16)),
        (scale.side(512, 64, 2), scale.side(16384, 4096, 40)),
    ):
        size = f"{rows}x{columns}"
        x, w, b = (Operand(normal(*shape)) for shape in ((rows, columns), (columns,), (columns,)))
        labels = Operand(lambda rows=rows: np.arange(rows, dtype=np.int64) % 7)
        for operator, statement, operands in (
            ("softmax", "F.softmax(x, 1)", {"x": x}),
            ("log_softmax", "F.log_softmax(x, 1)", {"x": x}),
            ("layer_norm", f"F.layer_norm(x, ({columns},), w, b)", {"x": x, "w": w, "b": b}),
            ("rms_norm", f"F.rms_norm(x, ({columns},), w)", {"x": x, "w": w}),
            ("cross_entropy", "F.cross_entropy(x, labels)", {"x": x, "labels": labels}),
        ):
            yield Workload("norm", operator, operator, size, "float32", statement, "", operands)
            yield Workload(
                "norm", operator, operator, size, "float32", f"{statement}.square().sum().backward()", "",
                operands | {"x": Operand(x.array, requires_grad=True)}, direction="both", result="x.grad",
                reset="x.grad = None",
            )  # fmt: skip
    batch, channels, side = scale.side(16, 4, 2), scale.side(64, 32, 4), scale.side(56, 28, 5)
    size = f"{batch}x{channels}x{side}x{side}"
    x, w, b = (Operand(normal(*shape)) for shape in ((batch, channels, side, side), (channels,), (channels,)))
    for operator, statement in (
        ("batch_norm", "F.batch_norm(x, None, None, w, b, True)"),
        ("group_norm", f"F.group_norm(x, {channels // 4}, w, b)"),
    ):
        yield Workload("norm", operator, operator, size, "float32", statement, "", {"x": x, "w": w, "b": b})
