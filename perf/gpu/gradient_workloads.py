"""Workloads of backward passes alone, and of losses over a vocabulary: forward, backward, fused."""

from __future__ import annotations

from collections.abc import Iterator

from .workloads import Operand, Workload

BACKWARD = "backward"
FUSED = "fused rows"
LOSSES = "cross-entropy"
VOCABULARIES = (32_768, 50_257, 128_256)
TOKENS, WIDTH = 8192, 4096


def backward_of(group: str, name: str, result: str, operands: dict[str, Operand], moved: int) -> Workload:
    """Return the backward pass of `result` with respect to all operands but `g`, which is its gradient.

    Integer operands get no gradient. The forward pass runs once for each set of operands, untimed.
    """
    leaves = [each for each, operand in operands.items() if each != "g" and not operand.high]
    setup = "\n".join([*(f"{each}.requires_grad_()" for each in leaves), f"y = {result}"])
    inputs = f"({', '.join(leaves)},)"
    grad = "g" if "g" in operands else "None"
    return Workload(
        group, name, f"lib.autograd.grad(y, {inputs}, {grad}, retain_graph=True)", operands, setup=setup,
        moved=moved,
    )  # fmt: skip


def row_gradients(scale: int) -> Iterator[Workload]:
    """Yield the backward passes of softmax and of norms."""
    for dtype in ("bfloat16", "float32"):
        for rows, columns in ((16384, 4096), (32768, 1024), (2048, 50257)):
            rows, columns = max(rows // scale, 2), max(columns // scale, 8)
            x, w = Operand((rows, columns), dtype), Operand((columns,), dtype)
            size, moved = f"{rows}x{columns} {dtype}", 3 * x.nbytes
            yield backward_of(BACKWARD, f"softmax {size}", "F.softmax(a, 1)", {"a": x, "g": x}, moved)
            yield backward_of(
                BACKWARD, f"layer_norm {size}", f"F.layer_norm(a, ({columns},), w, b)",
                {"a": x, "w": w, "b": w, "g": x}, moved,
            )  # fmt: skip
            yield backward_of(
                BACKWARD,
                f"rms_norm {size}",
                f"F.rms_norm(a, ({columns},), w)",
                {"a": x, "w": w, "g": x},
                moved,
            )
    batch, channels, side = max(256 // scale, 2), max(64 // scale, 4), max(112 // scale, 4)
    x = Operand((batch, channels, side, side), "bfloat16", channels_last=True)
    w = Operand((channels,), "float32")
    result = "F.batch_norm(x, None, None, w, b, training=True)"
    yield backward_of(
        BACKWARD, f"batch_norm {batch}x{channels}x{side}x{side} bfloat16", result,
        {"x": x, "w": w, "b": w, "g": x}, 5 * x.nbytes,
    )  # fmt: skip


def vocabulary_losses(scale: int) -> Iterator[Workload]:
    """Yield cross-entropy forward and backward, and a linear layer with its loss."""
    for vocabulary in VOCABULARIES:
        tokens, vocabulary = max(TOKENS // scale, 4), max(vocabulary // scale, 8)
        target = Operand((tokens,), "int64", high=vocabulary)
        for dtype in ("bfloat16", "float32"):
            x = Operand((tokens, vocabulary), dtype)
            size = f"{tokens}x{vocabulary} {dtype}"
            yield Workload(
                LOSSES,
                f"cross_entropy {size}",
                "F.cross_entropy(a, t)",
                {"a": x, "t": target},
                moved=x.nbytes,
            )
            yield backward_of(
                LOSSES, f"cross_entropy backward {size}", "F.cross_entropy(a, t)", {"a": x, "t": target},
                2 * x.nbytes,
            )  # fmt: skip
        width = max(WIDTH // scale, 8)
        x, w = Operand((tokens, width), "bfloat16"), Operand((vocabulary, width), "bfloat16")
        yield Workload(
            LOSSES, f"linear + cross_entropy {tokens}x{width}x{vocabulary} bfloat16",
            "lib.autograd.grad(F.linear_cross_entropy(x, w, t), (x, w))",
            {"x": x, "w": w, "t": target}, flops=6 * tokens * width * vocabulary,
            setup="x.requires_grad_()\nw.requires_grad_()",
            peer_statement="lib.autograd.grad(F.cross_entropy(F.linear(x, w), t), (x, w))",
            needs="nn.functional.linear_cross_entropy",
        )  # fmt: skip


def fused_rows(scale: int) -> Iterator[Workload]:
    """Yield a residual addition with the norm that follows it, compiled by both libraries."""
    rows, columns = max(16384 // scale, 2), max(4096 // scale, 8)
    x, w = Operand((rows, columns), "bfloat16"), Operand((columns,), "bfloat16")
    size = f"{rows}x{columns} bfloat16"
    for name, norm in (
        ("rms_norm", f"F.rms_norm(a + r, ({columns},), w)"),
        ("layer_norm", f"F.layer_norm(a + r, ({columns},), w, w)"),
    ):
        yield Workload(
            FUSED, f"add + {name} {size}", f"(a + r, {norm})", {"a": x, "r": x, "w": w}, moved=4 * x.nbytes,
            compiled=True,
        )  # fmt: skip


def gradient_workloads(scale: int) -> Iterator[Workload]:
    """Yield all workloads of this module. `scale` divides the sizes."""
    yield from row_gradients(scale)
    yield from vocabulary_losses(scale)
    yield from fused_rows(scale)
