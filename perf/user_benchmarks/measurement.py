"""Measurement of functions in place of statements: the same rounds, checks and intervals as the suites'."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..interleaved import Slice, statement_slice
from ..suite.cores import Cores
from ..suite.device_work import DeviceWork
from ..suite.libraries import Library, tt, wide
from ..suite.measurement import Effort, Measurement, Rival, after_synchronization
from ..suite.results import OURS
from ..suite.workload import Workload
from .loading import FunctionWorkload

# Errors of a user's function that its row reports. Other errors end the run with a traceback.
FAILURES = (
    AttributeError, ImportError, NotImplementedError, LookupError, ArithmeticError, AssertionError,
)  # fmt: skip
# Numbers of operands that alternate on a GPU, so that the L2 cache does not hold them.
SETS = 4
SEED = 0


class FunctionFailed(RuntimeError):
    """Error of a benchmark's function; the message has its type."""


class Baseline(Library):
    """Baseline functions of one name. Threads and precision are set through triten, and are not its own."""

    def __init__(self, name: str, device: str) -> None:
        self.name = name
        self.device = device
        self.module = tt

    @property
    def is_arrays(self) -> bool:
        """False: results may be tensors or arrays."""
        return False

    @property
    def has_phrases(self) -> bool:
        """False: a function has no statement."""
        return False

    def set_threads(self, threads: int) -> bool:
        """Do nothing."""
        return True

    def allow_tf32(self, allowed: bool) -> None:
        """Do nothing."""


class FunctionMeasurement(Measurement):
    """Makes rows of benchmarks that users declared.

    Args:
        ours: triten.
        workloads: All workloads, whose baselines take part.
    """

    def __init__(
        self,
        ours: Library,
        workloads: Sequence[FunctionWorkload],
        effort: Effort,
        threads: int,
        device: DeviceWork | None,
        cores: Cores,
    ) -> None:
        names = dict.fromkeys(name for workload in workloads for name in workload.benchmark.baselines)
        baselines = [Baseline(name, ours.device) for name in names]
        super().__init__([ours, *baselines], effort, threads, device, cores)

    def _prepare(self, workload: Workload, library: Library) -> Rival | None:
        assert isinstance(workload, FunctionWorkload)
        benchmark = workload.benchmark
        function = benchmark.function if library.name == OURS else benchmark.baselines.get(library.name)
        if function is None:
            return None
        try:
            sets = 1 if self._device is None else SETS
            namespaces = [_namespace(workload, function, library.device) for _ in range(sets)]
            first = namespaces[0]
            _seed()
            result = function(*first["arguments"], **first["named"])
            value = _value(result, workload, library) if workload.compared else None
            del result
            if self._device is not None:
                code = compile("function(*arguments, **named)", f"<{workload.name}>", "exec")
                return Rival(library, self._device.slice(code, namespaces, library), value)
            return Rival(library, self._host_slice(namespaces[0], library), value)
        except FAILURES as error:
            raise FunctionFailed(f"{type(error).__name__}: {error}") from error

    def _host_slice(self, namespace: dict[str, Any], library: Library) -> Slice:
        arguments, named = namespace["arguments"], namespace["named"]
        # Names in place of unpacking, which would add to the time of a small call.
        names = {f"a{index}": value for index, value in enumerate(arguments)} | {
            f"k{index}": value for index, value in enumerate(named.values())
        }
        argument_list = [f"a{index}" for index in range(len(arguments))]
        argument_list += [f"{name}=k{index}" for index, name in enumerate(named)]
        statement = f"function({', '.join(argument_list)})"
        work = statement_slice(
            statement,
            {"function": namespace["function"], **names},
            collect_garbage=self._effort.collect_garbage,
        )
        return after_synchronization(work, library)


def _seed() -> None:
    """Seed the global generators, so that the set-ups of all baselines make equal operands."""
    random.seed(SEED)
    np.random.seed(SEED)
    tt.manual_seed(SEED)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(SEED)


def _namespace(workload: FunctionWorkload, function: Any, device: str) -> dict[str, Any]:
    _seed()
    arguments, named = workload.benchmark.arguments(workload.case, device)
    return {"function": function, "arguments": arguments, "named": named}


def _value(result: Any, workload: FunctionWorkload, library: Library) -> tuple[str, Any]:
    """Return a result to compare. Raise FunctionFailed for results that cannot be compared."""
    try:
        return _comparable(result, library)
    except (AttributeError, KeyError, ValueError):
        raise FunctionFailed(
            f"benchmark {workload.name!r} returned {type(result).__name__}, which cannot be compared: return a tensor, "
            "an array, a number or a tuple of these, or pass check=False"
        ) from None


def _comparable(result: Any, library: Library) -> tuple[str, Any]:
    if isinstance(result, tuple | list):
        parts = [_comparable(part, library) for part in result]
        return ", ".join(name for name, _ in parts), np.concatenate([part.reshape(-1) for _, part in parts])
    if isinstance(result, np.ndarray | np.generic):
        return result.dtype.name, wide(np.asarray(result))
    if hasattr(result, "get") and hasattr(result, "__cuda_array_interface__"):  # CuPy's
        return result.dtype.name, wide(result.get())
    return library.value(result)
