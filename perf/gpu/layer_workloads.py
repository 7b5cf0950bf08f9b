"""Workloads of layers of image networks in training, and of random numbers."""

from __future__ import annotations

from collections.abc import Iterator

from .workloads import Operand, Workload

LAYERS = "layers of image networks"
RANDOM = "random numbers"
MILLION = 1 << 20
BATCH_NORMS = ((64, 112), (256, 56), (512, 28), (2048, 7))
"""Channels and side of ResNet-50's batch norms."""
DEPTHWISE = ((96, 56, 7), (384, 14, 7), (144, 56, 3))
"""Channels, side and filter of depthwise convolutions of ConvNeXt and MobileNet."""


def image_layers(scale: int) -> Iterator[Workload]:
    """Yield batch norms in training, pools, and depthwise convolutions, channels-last, a batch of 256."""
    batch = max(256 // scale, 2)
    for channels, side in BATCH_NORMS:
        channels, side = max(channels // scale, 4), max(side // scale, 3)
        w = Operand((channels,), "float32")
        for last in (True, False):
            x = Operand((batch, channels, side, side), "bfloat16", channels_last=last)
            layout = "channels-last" if last else "contiguous"
            yield Workload(
                LAYERS, f"batch_norm {batch}x{channels}x{side}x{side}, {layout} bfloat16",
                "F.batch_norm(x, None, None, w, b, training=True)", {"x": x, "w": w, "b": w}, moved=3 * x.nbytes,
            )  # fmt: skip
    channels, side = max(64 // scale, 4), max(112 // scale, 8)
    x = Operand((batch, channels, side, side), "bfloat16", channels_last=True)
    half = batch * channels * (side // 2) ** 2 * 2
    size = f"{batch}x{channels}x{side}x{side} bfloat16"
    for name, statement, written in (
        ("max_pool2d 3/2", "F.max_pool2d(x, 3, 2, 1)", half),
        ("avg_pool2d 2/2", "F.avg_pool2d(x, 2)", half),
        ("adaptive_avg_pool2d 1", "F.adaptive_avg_pool2d(x, 1)", batch * channels * 2),
        ("interpolate 2x, bilinear", "F.interpolate(x, scale_factor=2.0, mode='bilinear')", 4 * x.nbytes),
    ):
        yield Workload(LAYERS, f"{name}, {size}", statement, {"x": x}, written)
    yield Workload(
        LAYERS, f"max_pool2d 3/2 backward, {size}", "lib.autograd.grad(y, (x,), g, retain_graph=True)", {"x": x},
        setup="x.requires_grad_()\ny = F.max_pool2d(x, 3, 2, 1)\ng = lib.ones_like(y)", moved=half * 5 + x.nbytes,
    )  # fmt: skip
    for channels, side, kernel in DEPTHWISE:
        channels, side = max(channels // scale, 4), max(side // scale, kernel)
        x = Operand((max(batch // 4, 1), channels, side, side), "bfloat16", channels_last=True)
        yield Workload(
            LAYERS, f"depthwise {kernel}x{kernel}, {x.shape[0]}x{channels}x{side}x{side} bfloat16",
            f"F.conv2d(x, w, None, 1, {kernel // 2}, 1, {channels})",
            {"x": x, "w": Operand((channels, 1, kernel, kernel), "bfloat16")}, x.nbytes,
        )  # fmt: skip


def random_numbers(scale: int) -> Iterator[Workload]:
    """Yield dropout, rand, randn and randint. Results differ between the libraries."""
    count = max(64 * MILLION // scale**2, 64)
    for dtype in ("float32", "bfloat16"):
        x = Operand((count,), dtype)
        yield Workload(
            RANDOM, f"dropout {count} {dtype}", "F.dropout(x, 0.1)", {"x": x}, x.nbytes, compared=False
        )
        for name in ("rand_like", "randn_like", "bernoulli"):
            read = x.nbytes if name == "bernoulli" else 0
            statement = "lib.bernoulli(p)" if name == "bernoulli" else f"lib.{name}(x)"
            yield Workload(
                RANDOM, f"{name} {count} {dtype}", statement, {"x": x}, moved=x.nbytes + read, compared=False,
                setup="p = x.sigmoid()" if read else "",
            )  # fmt: skip
    x = Operand((count,), "int64", high=2)
    yield Workload(
        RANDOM,
        f"randint_like {count} int64",
        "lib.randint_like(x, 1000)",
        {"x": x},
        moved=x.nbytes,
        compared=False,
    )


def layer_workloads(scale: int) -> Iterator[Workload]:
    """Yield all workloads of this module. `scale` divides the sizes."""
    yield from image_layers(scale)
    yield from random_numbers(scale)
