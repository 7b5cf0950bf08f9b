"""NCCL: the cases of `tests/distributed/nccl_*cases.py` by one rank, and by as many as there are devices."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import triten as tt
from triten.distributed.backends.nccl import library
from triten.runtime.cuda.driver import is_simulated

from .first_checks import NeedsACard, NotBuilt, check, is_rehearsal, require

FUNCTIONS = ("allReduce", "reduce", "broadcast", "allGather", "reduceScatter", "send", "recv")
LIMIT = 300
"""Seconds for all cases of several ranks."""


def need_nccl() -> None:
    try:
        library.load()
    except (ModuleNotFoundError, RuntimeError) as error:
        raise NotBuilt(str(error)) from None


@check("nccl: one rank computes, moves and captures")
def one_rank() -> str:
    need_nccl()
    from triten.tests.distributed.nccl_cases import ALONE, group_of_one, run

    communicator = group_of_one("alone")
    found = run(communicator, ALONE)
    communicator.close()
    return judged([found])


@check("nccl: a rank on each device")
def ranks() -> str:
    need_nccl()
    size = tt.cuda.device_count()
    if is_rehearsal():
        raise NeedsACard("tests/distributed has two ranks on simulated devices")
    if size < 2:
        raise NeedsACard("it needs a second device")
    with tempfile.TemporaryDirectory(prefix="nccl-") as folder:
        store = Path(folder) / "store"
        command = [sys.executable, "-P", "-m", "triten.tests.distributed.nccl_pair_cases"]
        started = [
            subprocess.Popen([*command, str(rank), str(size), str(store)], stderr=subprocess.PIPE, text=True)
            for rank in range(size)
        ]
        try:
            said = [each.communicate(timeout=LIMIT)[1] for each in started]
        finally:
            for each in started:
                each.kill()
        require(not any(each.returncode for each in started), f"a rank failed: {said}")
        return judged([json.loads(Path(f"{store}.{rank}").read_text()) for rank in range(size)])


@check("nccl: the stand-in's functions are those of the binding", on_a_card=True)
def surface() -> str:
    need_nccl()
    from triten.distributed.backends.nccl.simulated import binding

    real = library.load()
    for name in FUNCTIONS:
        # The binding is compiled: its parameters stand in the first line of the docstring, with their C types.
        line = getattr(real.NcclCommunicator, name).__doc__.split("\n")[0]
        given = [each.split()[-1] for each in line[line.index("(") + 1 : line.rindex(")")].split(", ")][1:]
        own = list(inspect.signature(getattr(binding.NcclCommunicator, name)).parameters)[1:]
        require(given == own, f"{name}: {given} in the binding, {own} in the stand-in")
    missing = [name for name in binding.__all__ if not hasattr(real, name)]
    require(not missing, f"the binding has no {', '.join(missing)}")
    return f"{len(FUNCTIONS)} functions, NCCL {real.get_version()}"


def judged(found: list[dict[str, str]]) -> str:
    """Raise if a case failed on a rank; otherwise return a summary."""
    for rank, cases in enumerate(found):
        for name, text in cases.items():
            require(not text, f"rank {rank}: {name}: {text[-1000:]}")
    where = "simulated" if is_simulated() else f"NCCL {library.load().get_version()}"
    return f"{len(found)} ranks, {len(found[0])} cases, {where}"
