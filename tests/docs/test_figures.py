"""Figures with a unit in the pages come from the code: no page states a time, a size or a share by itself.

`SOURCES` writes each figure as the page does, from a constant of the code. A figure that a page takes from elsewhere
stands in `DEFINED`, with the reason. Pages that a command writes from result files are left out; figures of the
README from result files have `test_measured_figures.py`.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FIGURE = re.compile(
    r"(?<![\w./-])\d[\d.,]*(?: to \d[\d.,]*)? (?:ns|us|ms|seconds?|minutes?|hours?|[KMG]i?B|TFLOP/s|[GT]B/s|%)(?!\w)"
    r"|(?<![\w./-])\d+\.\d+ times|(?<![\w.])\d+,000 lines"
)
WRITTEN = re.compile(r"<!-- Written by `make \w+`, from (perf/results/\w+\.json)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)

MIB = 2**20
RENDEZVOUS = "distributed.elastic.rendezvous.parameters.RendezvousTimeouts"


def constant(name: str) -> Any:
    """Return a constant of the code by its dotted name below ``triten``."""
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(f"triten.{module}"), attribute)


def block(name: str) -> int:
    """Return a size of the caching allocator in MiB."""
    return int(constant(f"runtime.cuda.memory.block.{name}")) // MIB


def minutes(name: str) -> int:
    """Return a timeout of `triten.distributed` in minutes."""
    return int(constant(f"distributed.backend.{name}").total_seconds()) // 60


SOURCES = {
    "docs/compiler_internals.md": lambda: [
        f"up to {constant('compiler.passes.constant_folding.MAX_BYTES') // MIB} MiB",
        f"process blocks of {constant('compiler.host.pointwise.BLOCK_BYTES') >> 10} KiB",
        f"whole rows in blocks of {constant('compiler.host.rows.BLOCK_BYTES') >> 10} KiB",
        f"each block of {constant('compiler.host.block_reductions.BLOCK_BYTES') >> 10} KiB",
    ],
    "docs/compiling.md": lambda: [
        f"Results of up to {constant('compiler.cuda_graphs.outputs.SMALL_RESULT') >> 10} KiB are copied out",
        f"limits: {constant('compiler.schedule.MAX_POINTWISE')} steps in a pointwise kernel, "
        f"{constant('compiler.schedule.MAX_STEPS')} steps in a row kernel, "
        f"{constant('compiler.operand_limit.MAX_OPERANDS')} inputs and outputs",
    ],
    "docs/distributed.md": lambda: [
        f"{minutes('DEFAULT_TIMEOUT')} minutes; NCCL {minutes('NCCL_TIMEOUT')}",
        f"the timeout ({minutes('NCCL_TIMEOUT')} minutes)",
    ],
    "docs/distributed_data_parallel.md": lambda: [
        f"{constant('nn.parallel.distributed.FIRST_BUCKET_BYTES') // MIB} MiB for the first, "
        f"{constant('nn.parallel.distributed.DEFAULT_BUCKET_CAP_MB')} MiB for the others",
    ],
    "docs/distributed_starting.md": lambda: [
        f"or {constant(RENDEZVOUS).last_call:.0f} seconds after the minimum",
        f"{constant('distributed.elastic.multiprocessing.process_context.LAST_WAIT'):.0f} seconds later",
    ],
    "docs/environment_variables.md": lambda: [
        f"{constant('runtime.disk_cache.DEFAULT_MAXSIZE') // 2**30} GiB by default",
    ],
    "docs/fuzzing.md": lambda: [
        f"about {round(constant('tests.fuzz.files.guarded.LEAST') / 1e6, -1):.0f} MB, "
        f"or {constant('tests.fuzz.files.guarded.SECONDS'):.0f} seconds",
    ],
    "docs/gpu_kernels.md": lambda: [
        f"| up to {block('SMALL_LIMIT')} MiB (small pool) | {block('SMALL_SEGMENT')} MiB |",
        f"| below {block('LARGE_SEGMENT_LIMIT')} MiB (large pool) | {block('LARGE_SEGMENT')} MiB |",
        f"| {block('LARGE_SEGMENT_LIMIT')} MiB or more (large pool) | the request, rounded up to a multiple of "
        f"{block('LARGE_GRANULARITY')} MiB |",
        f"more than {block('SMALL_LIMIT')} MiB (large pool)",
        f"up to {block('OVERSIZE_SLACK')} MiB smaller",
        f"it saves more than {round(100 * constant('perf.gpu.variants.MIN_GAIN'))} % and more than the spread",
    ],
    "docs/gpu_kernels_internals.md": lambda: [
        f"{constant('perf.planning.launch_time.ASKED') * 100:.0f} % of\nthe bandwidth",
    ],
    "docs/performance.md": lambda: [
        f"{constant('perf.suite.results.CONFIDENCE') * 100:.0f} % confidence",
        f"for {constant('perf.suite.measurement.Effort').slice_seconds * 1e3:.0f} ms "
        f"({constant('perf.suite.run.QUICK').slice_seconds * 1e3} ms with",
        f"more than {constant('perf.suite.compare.THRESHOLD') * 100:.0f} % (",
    ],
}

DEFINED = {
    "CONTRIBUTING.md": {
        "at most 25 minutes": "a budget of the checks",
        "1.5 GB with NumPy and SciPy, of which 1.0 GB": "sizes of wheels, in round numbers",
        "2.3 GB": "sizes of wheels, in round numbers",
        "at most three minutes": "a budget of the affected tests",
        "| 20 minutes |": "a budget of the tests",
        "one minute": "a budget of the quick tests",
    },
    "README.md": {
        "about 20 seconds on two cores": "a budget of the demonstration",
        "about 20 minutes on two cores": "a budget of the tests",
    },
    "docs/gpu_kernels_internals.md": {
        "with 99 KiB of shared": "NVIDIA's limit of a thread block on sm_89 and sm_120",
        "at 63 % of the peak": "published for FlashAttention-3",
        "(32 KB of shared memory instead of 66)": "shared memory of a tile of the table above",
    },
    "docs/performance.md": {
        "97 MB | 314 MB |": "sizes of a package on PyPI, by pip",
        "39 MB | 158 MB, with": "sizes of a package on PyPI, by pip",
        "221 MB | 656 MB |": "sizes of a package on PyPI, by pip",
    },
    "docs/how_to/cpu_threads.md": {"under 50 us": "advice, not a measurement"},
    "docs/tutorials/train_digits.md": {"more than 90 % right": "printed by the page's program"},
}


def pages() -> list[Path]:
    """Return the pages that a person writes."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    for pattern in ("*.md", "reference/*.rst", "how_to/*.md", "tutorials/*.md"):
        found += sorted((ROOT / "docs").glob(pattern))
    return found


def unsourced(text: str, sourced: list[str]) -> list[str]:
    """Return the figures of a page that stand in none of some passages; code is left out."""
    for passage in sourced:
        text = text.replace(passage, "")
    return FIGURE.findall(CODE.sub("", text))


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_figures_have_a_source(page: Path) -> None:
    text, name = page.read_text(encoding="utf-8"), str(page.relative_to(ROOT))
    written = WRITTEN.search(text)
    if written is not None:
        assert (ROOT / written[1]).is_file()
        return
    sourced = SOURCES.get(name, list)()
    defined = list(DEFINED.get(name, ()))
    assert [passage for passage in [*sourced, *defined] if passage not in text] == [], (
        "stale, or changed in the code"
    )
    assert unsourced(text, [*sourced, *defined]) == []


def test_pages_with_sources_exist() -> None:
    known = {str(page.relative_to(ROOT)) for page in pages()}
    assert set(SOURCES) | set(DEFINED) <= known


@pytest.mark.parametrize(
    "text",
    ["A call takes 2 us.", "It has 170,000 lines.", "6 MB of memory", "1.2 times faster", "98 % right"],
)
def test_a_figure_without_a_source_is_found(text: str) -> None:
    assert unsourced(text, [])
    assert unsourced(f"{text} `{text}`", [text]) == []
