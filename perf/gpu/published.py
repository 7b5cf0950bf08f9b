"""Published results for work that rows of `workloads` time, to judge a model; nothing was measured here."""

from __future__ import annotations

from typing import NamedTuple


class Published(NamedTuple):
    """A rate of an implementation on a device, beside that device's peak, both in TFLOP/s, and who says so."""

    implementation: str
    device: str
    rate: float
    peak: float
    source: str

    @property
    def share(self) -> float:
        """Share of the device's own peak, which makes rates of different devices comparable."""
        return self.rate / self.peak

    def __str__(self) -> str:
        return (
            f"{self.implementation} on {self.device}: {self.rate:g} TFLOP/s, {self.share:.0%} ({self.source})"
        )


PUBLISHED: dict[tuple[str, str], tuple[Published, ...]] = {
    ("matmul, cubes", "mm 8192x8192x8192 bfloat16"): (
        Published("cuBLAS", "H200 NVL", 685, 835.5, "NVlabs/tilus #154"),
        Published("tilus", "H200 NVL", 632, 835.5, "NVlabs/tilus #154"),
    ),
    ("matmul, 8 bits", "_scaled_mm 8192x8192x4096"): (
        Published("Triton, host descriptors", "H100", 1347, 1978.9, "triton-lang/triton #5461"),
        Published("cuBLAS", "H100", 1278, 1978.9, "triton-lang/triton #5461"),
    ),
    ("attention", "attention 16384, head 128"): (
        Published("FlashAttention-3", "H100", 621, 989.4, "pytorch/benchmark #2391"),
        Published("Triton's tutorial", "H100", 477, 989.4, "pytorch/benchmark #2391"),
    ),
}
"""By the row's group and name, the best first."""


def best_of(group: str, name: str) -> Published | None:
    """Return the best published result for a row's work; None if there is none.

    Example:
        >>> best_of("matmul, cubes", "mm 8192x8192x8192 bfloat16").implementation
        'cuBLAS'
    """
    return next(iter(PUBLISHED.get((group, name), ())), None)
