"""A program for a process of its own: operators on a driver that notes every launch and runs none.

The planner is the one that ships, so that what is compiled afterwards is what a GPU of the target would get.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from ...runtime.cuda import driver as cuda
from ...runtime.cuda.occupancy import KNOWN, Target
from ...runtime.cuda.recording_driver import RecordingDriver
from ...triton_kernels.budget import DECLARATIONS, Configuration, name_of
from ...triton_kernels.tuning.choice import forced, listening, make_plans_anew
from ...triton_kernels.tuning.question import Question, candidates, is_same
from .coverage import (
    Launched,
    configuration_of,
    expectation,
    functions_in,
    gaps,
    kernels_in,
    residency,
    seen_through_declaration,
)
from .request import Request, encode, load_module


def versions() -> list[str]:
    """Return the versions that a result depends on: Triton, its configured tools, and this package's own
    code.
    """
    import triton

    tools = [
        f"{name}={os.environ.get(name)}" for name in ("TRITON_PTXAS_PATH", "TRITON_PTXAS_BLACKWELL_PATH")
    ]
    folder = Path(__file__).parent
    ours = [
        folder / "worker.py",
        folder / "compilation.py",
        folder / "combined_cubin.py",
        folder / "disassembly.py",
        folder / "parameters.py",
        folder / "schedule.py",
        folder.parents[1] / "runtime" / "cuda" / "triton" / "compile.py",
    ]
    return [
        str(triton.__version__),
        *tools,
        *(hashlib.sha256(path.read_bytes()).hexdigest() for path in ours),
    ]


def request_for(noted: Mapping[str, Any], target: Target, version: Sequence[str]) -> Request:
    """Convert a recorded launch to plain data, with a key derived from its source, constants and versions."""
    kernel, constants = noted["kernel"], noted["constants"]
    plain = {
        "kernel": name_of(kernel),
        "target": target.capability,
        "signature": noted["signature"],
        "constants": {name: encode(value) for name, value in constants.items()},
        "divisible": sorted(noted["divisible"]),
        "options": noted["options"],
    }
    functions = [value for value in constants.values() if hasattr(value, "cache_key")]
    sources = [kernel.cache_key, *(function.cache_key for function in functions)]
    key = hashlib.sha256(json.dumps([plain, sources, list(version)]).encode()).hexdigest()
    return Request(**plain, key=key)


class Entry(NamedTuple):
    """A distinct launch: the labels that made it, and whether claims of wide accesses hold in one of them.

    `is_tried` says that no kernel chooses it by itself: a tuner tries it, and passes over what does not load.
    """

    request: Request
    label: str
    wide: bool
    launched: Launched | str | None
    is_tried: bool = False


def record(
    samples: ModuleType, driver: RecordingDriver, with_candidates: bool = True
) -> tuple[list[Entry], list[str]]:
    """Return every distinct launch of the samples, and the errors of the samples themselves.

    If a kernel has a choice of configurations, the first sample of a dtype also runs with each tuning
    candidate. `with_candidates=False` disables this.
    """
    entries: dict[str, Entry] = {}
    faults: list[str] = []
    version = versions()
    tried: set[tuple[str, str, Configuration]] = set()
    for sample in samples.samples(driver.target.capability):
        default_of: dict[Question, Configuration] = {}
        driver.launched.clear()
        driver.grids.clear()
        try:
            with listening(
                lambda question, default, default_of=default_of: default_of.setdefault(question, default)
            ):  # type: ignore[misc]
                sample.run()
        except NotImplementedError as error:
            if not sample.refused:
                faults.append(f"sample '{sample.label}' is refused: {error}")
            continue
        if sample.refused:
            faults.append(f"sample '{sample.label}' ought to be refused")
        if not driver.launched:
            faults.append(f"sample '{sample.label}' launches nothing")
        _note(entries, driver, version, sample.label, sample.wide)
        for question, candidate in untried(default_of, tried) if with_candidates else ():
            driver.launched.clear()
            with forced(question, candidate):
                make_plans_anew()
                sample.run()
            make_plans_anew()
            if any(takes(noted, question, candidate) for noted in driver.launched):
                tried.add((question.kernel, question.dtype, candidate))
            _note(entries, driver, version, f"{sample.label}, {candidate}", sample.wide, is_tried=True)
    return list(entries.values()), faults


def untried(
    default_of: Mapping[Question, Configuration], tried: set[tuple[str, str, Configuration]]
) -> Iterator[tuple[Question, Configuration]]:
    """Yield the other candidates of questions that are not in `tried` for the kernel and dtype."""
    for question, default in default_of.items():
        for candidate in candidates(question, default)[1:]:
            if (question.kernel, question.dtype, candidate) not in tried:
                yield question, candidate


def takes(noted: Mapping[str, Any], question: Question, candidate: Configuration) -> bool:
    """Return True if a launch uses the question's kernel and this configuration, which a kernel may reject."""
    if name_of(noted["kernel"]) != question.kernel:
        return False
    constants, options = noted["constants"], noted["options"]
    tile = tuple(constants[name] for name in DECLARATIONS[question.kernel].tile)
    return is_same(configuration_of(tile, options), candidate)


def _note(
    entries: dict[str, Entry],
    driver: RecordingDriver,
    version: Sequence[str],
    label: str,
    wide_kernels: Sequence[str],
    is_tried: bool = False,
) -> None:
    """Add the distinct ones of the driver's launches."""
    for noted in driver.launched:
        request = request_for(noted, driver.target, version)
        wide = request.kernel.rpartition(":")[2] in wide_kernels
        known = entries.get(request.key)
        if known is not None:
            entries[request.key] = known._replace(
                wide=known.wide or wide, is_tried=known.is_tried and is_tried
            )
            continue
        declaration = DECLARATIONS.get(request.kernel)
        launched = None
        if declaration is not None:
            launched = seen_through_declaration(
                declaration, driver.target, request.signature, noted["constants"], request.options
            )
        entries[request.key] = Entry(request, label, wide, launched, is_tried)


def quick(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the first launch of each kernel with a configuration of its own; for matmuls also the first exact
    one.
    """
    taken: set[tuple[str, bool]] = set()
    for entry in entries:
        if not isinstance(entry.launched, Launched) or not entry.launched.exact:
            continue
        declaration = entry.launched.declaration
        kind = entry.request.kernel, entry.launched.dtype in declaration.exact
        claims = bool(declaration.loads or declaration.stores)
        if kind not in taken and entry.wide >= (claims and not kind[1]):
            taken.add(kind)
            yield entry


def describe(entry: Entry, target: Target) -> dict[str, Any]:
    """Return an entry as JSON: the request, its expectation, and its place in the table."""
    launched = entry.launched
    described: dict[str, Any] = {
        "request": asdict(entry.request),
        "label": entry.label,
        "is_tried": entry.is_tried,
    }
    if launched is None or isinstance(launched, str):
        return described | {"fault": launched or "launched, but not declared"}
    request = entry.request
    blocks, note = residency(launched, target, request)
    return described | {
        "dtype": launched.dtype,
        "configuration": f"{launched.configuration} {note}".strip(),
        "blocks": blocks,
        "warps": launched.configuration.warps_of_a_block,
        "groups": launched.configuration.groups,
        "reuses": bool(launched.declaration.tensor_cores or launched.declaration.exact),
        "expected": asdict(expectation(launched, target, request, entry.wide)),
    }


def main(capability: int, source: str, only_quick: bool, only_some: bool) -> None:
    """Print the launches for a target as JSON.

    If only some kernels are selected, missing samples are not an error. A quick run of some kernels launches
    no tuning candidates.
    """
    target = KNOWN[capability]
    # Results measured on some machine are not shipped.
    os.environ["TRITEN_TUNING_STORE"] = "0"
    driver = cuda._driver = RecordingDriver(target)
    samples = load_module(source)
    entries, faults = record(samples, driver, with_candidates=not (only_quick and only_some))
    reached, wide = [], []
    for entry in entries:
        if isinstance(entry.launched, Launched):
            own = entry.launched
            if own.exact:
                reached.append((entry.request.kernel, own.dtype, *own.configuration.shape))
            if entry.wide:
                wide.append(entry.request.kernel)
    if not only_some:
        faults += gaps(target, kernels_in(samples.kernel_files()), reached, wide)
        launched = {name for entry in entries for name in functions_in(entry.request.constants)}
        names = (name_of(function) for function in samples.functions())
        faults += [f"{name}: a function that no sample launches" for name in names if name not in launched]
    chosen = list(quick(entries)) if only_quick else entries
    report = {
        "launches": [describe(entry, target) for entry in chosen],
        "faults": faults,
        "distinct": len(entries),
        "triton": versions()[0],
    }
    json.dump(report, sys.stdout)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], "--quick" in sys.argv, "--some" in sys.argv)
