"""Timing pieces of programs, and tables of such measurements (`torch.utils.benchmark`).

`timer.py` runs a statement, `measurement.py` keeps its times, `compare.py` sets several beside each other,
`fuzzer.py` makes operands of random sizes. Benchmarks of this package itself are in `perf/`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...runtime.lazy_import import lazy_names

if TYPE_CHECKING:
    from .compare import Colorize, Compare
    from .fuzzer import FuzzedParameter, FuzzedTensor, Fuzzer, ParameterAlias
    from .measurement import (
        Measurement,
        TaskSpec,
        ordered_unique,
        select_unit,
        set_torch_threads,
        trim_sigfig,
        unit_to_english,
    )
    from .timer import Language, Timer, timer

    __all__ = [
        "Colorize",
        "Compare",
        "FuzzedParameter",
        "FuzzedTensor",
        "Fuzzer",
        "Language",
        "Measurement",
        "ParameterAlias",
        "TaskSpec",
        "Timer",
        "ordered_unique",
        "select_unit",
        "set_torch_threads",
        "timer",
        "trim_sigfig",
        "unit_to_english",
    ]
else:
    __getattr__, __dir__, __all__ = lazy_names(
        __name__,
        {
            ".compare": "Colorize Compare",
            ".fuzzer": "FuzzedParameter FuzzedTensor Fuzzer ParameterAlias",
            ".measurement": (
                "Measurement TaskSpec ordered_unique select_unit set_torch_threads trim_sigfig unit_to_english"
            ),
            ".timer": "Language Timer timer",
        },
    )
