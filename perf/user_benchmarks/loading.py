"""Import of benchmark files, and their workloads."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from ..suite.libraries import SetupError
from ..suite.workload import Workload
from .declaration import Benchmark, Case


@dataclass(frozen=True)
class FunctionWorkload(Workload):
    """Workload of one case of a benchmark. It has no statement: `measurement` calls the functions."""

    benchmark: Benchmark = field(kw_only=True)
    case: Case = field(kw_only=True)


def load_benchmarks(paths: Sequence[Path]) -> list[FunctionWorkload]:
    """Import files and return the workloads of their benchmarks, in the order of their definitions.

    A file's folder is added to `sys.path`, as for a script. Errors that the file raises are not caught.

    Raises:
        SetupError: if a file does not exist, is not Python, has no benchmark, or two files have the same name.
    """
    workloads_of_files: list[FunctionWorkload] = []
    stems: dict[str, Path] = {}
    for path in paths:
        if path.suffix != ".py":
            raise SetupError(f"{path}: a file of benchmarks ends in .py")
        if not path.is_file():
            raise SetupError(f"{path}: no such file")
        if path.stem in stems:
            raise SetupError(
                f"{stems[path.stem]} and {path} would both be the suite {path.stem!r}: rename one"
            )
        stems[path.stem] = path
        workloads = _workloads(path)
        if not workloads:
            raise SetupError(f"{path}: no function is decorated with @tt.perf.benchmark")
        workloads_of_files += workloads
    return workloads_of_files


def _workloads(path: Path) -> list[FunctionWorkload]:
    module = _imported(path)
    benchmarks = dict.fromkeys(
        value
        for value in vars(module).values()
        if isinstance(value, Benchmark) and value.function.__module__ == module.__name__
    )
    names = [each.name for each in benchmarks]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SetupError(f"{path}: two benchmarks are named {twice!r}")
    return [
        FunctionWorkload(
            path.stem, each.name, each.name, case.label, "", compared=each.check and bool(each.baselines),
            counted=False, benchmark=each, case=case,
        )
        for each in benchmarks
        for case in each.cases()
    ]  # fmt: skip


def _imported(path: Path) -> ModuleType:
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    name = f"triten_benchmarks_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise SetupError(f"{path}: Python cannot import it")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # pickle and dataclasses look it up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
