"""Reduce a file that is larger than the memory for it: statistics of a memory-mapped array, part by part.

    python examples/memory_mapped.py [--megabytes 2048] [--device cpu|cuda]

The file holds float32 measurements, a row of eight for each moment. `tt.from_file` maps it: pages are read when a
kernel touches them, and the system may drop them again. One pass merges the counts, means and squared deviations of
parts (Chan et al., "Algorithms for Computing the Sample Variance", 1983), minima and maxima, and a covariance. A second
pass counts a histogram for the medians. The script prints the table, and how little memory the process took.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import triten as tt

COLUMNS = 8
PART = 1 << 18
"""Rows of a part: 8 MB."""
BINS = 4096


@dataclass
class Moments:
    """Count, means (C,), summed products of deviations (C, C), minima and maxima (C,) of rows."""

    count: int
    mean: tt.Tensor
    products: tt.Tensor
    low: tt.Tensor
    high: tt.Tensor

    @classmethod
    def of(cls, rows: tt.Tensor) -> Moments:
        """Compute those of rows (N, C), which fit into memory."""
        mean = rows.mean(0, dtype=tt.float64)
        deviations = rows.double() - mean
        return cls(len(rows), mean, deviations.T @ deviations, rows.amin(0), rows.amax(0))

    def merged(self, other: Moments) -> Moments:
        """Return those of both sets of rows together."""
        count = self.count + other.count
        step = other.mean - self.mean
        products = self.products + other.products + tt.outer(step, step) * (self.count * other.count / count)
        mean = self.mean + step * (other.count / count)
        return Moments(count, mean, products, self.low.minimum(other.low), self.high.maximum(other.high))

    @property
    def covariance(self) -> tt.Tensor:
        """The covariance (C, C)."""
        return self.products / (self.count - 1)


def write_file(path: Path, rows: int) -> None:
    """Write measurements: column `i` has the mean `i`, the standard deviation `1 + i / 4`, and half of the first."""
    tt.manual_seed(0)
    scale, offset = 1 + tt.arange(COLUMNS) / 4, tt.arange(COLUMNS).float()
    with path.open("wb") as file:
        for start in range(0, rows, PART):
            noise = tt.randn(min(PART, rows - start), COLUMNS)
            noise[:, 1:] = 0.5 * noise[:, :1] + 0.75**0.5 * noise[:, 1:]
            file.write((noise * scale + offset).numpy().tobytes())


def parts(rows: tt.Tensor, device: str) -> Iterator[tt.Tensor]:
    """Yield parts of mapped rows, each on the device."""
    for part in rows.split(PART):
        yield part.to(device)


def moments_of(rows: tt.Tensor, device: str) -> Moments:
    """Return the moments of mapped rows."""
    moments: Moments | None = None
    for part in parts(rows, device):
        moments = Moments.of(part) if moments is None else moments.merged(Moments.of(part))
    assert moments is not None
    return moments


def medians_of(rows: tt.Tensor, moments: Moments, device: str) -> tt.Tensor:
    """Return the medians (C,) of mapped rows to within a 4096th of the range, by a histogram."""
    width = (moments.high - moments.low) / BINS
    shift = tt.arange(COLUMNS, device=device) * BINS
    counts = tt.zeros(COLUMNS * BINS, dtype=tt.int64, device=device)
    for part in parts(rows, device):
        bins = ((part - moments.low) / width).long().clamp(0, BINS - 1) + shift
        counts += tt.bincount(bins.flatten(), minlength=COLUMNS * BINS)
    middle = (counts.view(COLUMNS, BINS).cumsum(1) < moments.count / 2).sum(1)
    return moments.low + (middle + 0.5) * width


def own_megabytes() -> float:
    """Return the memory of this process without the pages of files, in megabytes."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("RssAnon"))) / 1024


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a file, reduce it, and print the table."""
    parser = argparse.ArgumentParser(description="Statistics of a file that is larger than memory.")
    parser.add_argument("--megabytes", type=int, default=512, help="the file's size. Default: 512")
    parser.add_argument("--device", default="cpu", help="where parts are computed with")
    options = parser.parse_args(arguments)
    rows = (options.megabytes << 20) // (4 * COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "measurements.f32"
        write_file(path, rows)
        before = own_megabytes()
        started = time.perf_counter()
        mapped = tt.from_file(str(path), size=rows * COLUMNS, dtype=tt.float32).view(rows, COLUMNS)
        moments = moments_of(mapped, options.device)
        medians = medians_of(mapped, moments, options.device)
        seconds, after = time.perf_counter() - started, own_megabytes()
        deviation = moments.covariance.diagonal().sqrt()
        correlation = moments.covariance[0] / (deviation[0] * deviation)
        print(f"{'column':>8}{'mean':>10}{'median':>10}{'std':>10}{'min':>10}{'max':>10}{'corr. with 0':>14}")
        columns = (moments.mean, medians, deviation, moments.low, moments.high)
        for column, values in enumerate(np.stack([each.cpu().double().numpy() for each in columns], 1)):
            shown = "".join(f"{value:10.3f}" for value in values)
            print(f"{column:>8}{shown}{correlation[column].item():14.3f}")
        print(
            f"{rows:,} rows, {options.megabytes} MB, in {seconds:.2f} s; own memory grew by {after - before:.0f} MB"
        )


if __name__ == "__main__":
    main()
