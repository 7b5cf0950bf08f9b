"""A worker's side: answers tasks from standard input, a JSON line each, until it ends."""

from __future__ import annotations

import importlib.abc
import json
import os
import sys
import time
import traceback
from typing import Any


class WithoutTorch(importlib.abc.MetaPathFinder):
    """Finds no torch, wherever it lies."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        """Raise ModuleNotFoundError for torch, and leave all other names to the other finders."""
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name=name)


def block_torch() -> None:
    """Make `import torch` fail in this process, as where it is not installed.

    It does not become an entry of `sys.modules` that is None, from which Triton would take it for imported.
    """
    sys.meta_path.insert(0, WithoutTorch())


class Compilations:
    """Counts what the driver compiles, and which kernels are asked of it."""

    def __init__(self, cuda: Any) -> None:
        from triten.runtime.cuda.driver import kernel_name

        self.count = 0
        self.seconds = 0.0
        self.kernels: set[str] = set()
        self._told: set[str] = set()
        look_up, compile_for_device = cuda.compile, cuda._compile

        def seen(kernel: Any, *rest: Any, **options: Any) -> Any:
            self.kernels.add(kernel_name(kernel))
            return look_up(kernel, *rest, **options)

        def counted(*arguments: Any) -> Any:
            started = time.perf_counter()
            try:
                return compile_for_device(*arguments)
            finally:
                self.count += 1
                self.seconds += time.perf_counter() - started

        cuda.compile, cuda._compile = seen, counted

    def since(self, count: int, seconds: float) -> dict[str, Any]:
        """Return what was compiled after a given point, and the kernels that are new in this process."""
        new = sorted(self.kernels - self._told)
        self._told.update(new)
        found: dict[str, Any] = {
            "compiled": self.count - count,
            "compile_seconds": round(self.seconds - seconds, 3),
        }
        return found | ({"kernels": new} if new else {})


def describe_device() -> dict[str, Any]:
    """Return the device and the software versions of the results."""
    import triten as tt
    from triten.perf.result_file import installed_versions, source_version
    from triten.runtime.cuda.driver import is_simulated

    properties = tt.cuda.get_device_properties(0)
    versions = installed_versions() | {"triten": source_version(), "python": sys.version.split()[0]}
    if not is_simulated():
        from cupy.cuda import runtime

        versions["cuda"] = str(runtime.runtimeGetVersion())
        versions["cuda of the driver"] = str(runtime.driverGetVersion())
    return {
        "device": properties.name,
        "capability": f"{properties.major}.{properties.minor}",
        "memory": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
        "devices": tt.cuda.device_count(),
        "interpreted": is_simulated(),
        "versions": versions,
    }


def serve(seed: int, card_sizes: bool, plant: str | None, brief: bool = False) -> int:
    """Answer tasks until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a compiler prints does not mix with answers
    block_torch()
    if os.environ.get("STANDIN_EXECUTE") == "1":
        from triten.tests.runtime.cuda.standin.install import install

        install()
    import triten as tt

    from .arguments import CARD, SMALL
    from .cases import Case
    from .device_errors import is_fatal
    from .first_checks import run_check
    from .forms import FAILED, Outcome, run_case
    from .layouts import Poisoning

    try:
        described = describe_device()
    except RuntimeError as error:
        print(json.dumps({"error": str(error)}), file=answers)
        return 2
    # Results are judged by the precision of their dtype, which TF32 lacks.
    tt.backends.cudnn.allow_tf32 = False
    cuda = tt.library.driver()
    compilations = Compilations(cuda)
    if plant:
        from .planted import plant_faults

        plant_faults(plant)
    print(json.dumps(described), file=answers)
    plain = current = tt.library.get_allocator("cuda")
    poisoning = Poisoning(plain)
    sizes = CARD if card_sizes else SMALL
    for line in sys.stdin:
        task = json.loads(line)
        started, count, seconds = time.perf_counter(), compilations.count, compilations.seconds
        wanted = plain if "check" in task else poisoning
        if wanted is not current:
            tt.library.set_allocator("cuda", wanted)
            current = wanted
        if "check" in task:
            answer = run_check(task["check"], seed, brief)
        else:
            try:
                outcome = run_case(Case(*task["case"]), seed, sizes, brief)
            except Exception as error:  # what the check itself stumbles over must not pass for a dead device
                place = traceback.extract_tb(error.__traceback__)[-1]
                told = f"the check raised {type(error).__name__} at {place.name}:{place.lineno}: {error}"
                outcome = Outcome(FAILED, reason=told[:1500], fatal=is_fatal(error))
            answer = {"status": outcome.status, "forms": outcome.forms, "reason": outcome.reason}
            if outcome.fatal:
                answer["fatal"] = True
        answer["seconds"] = round(time.perf_counter() - started, 4)
        answer |= compilations.since(count, seconds)
        print(json.dumps(answer), file=answers)
        if answer.get("fatal"):
            return 3
    return 0
