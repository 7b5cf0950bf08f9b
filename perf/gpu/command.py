"""GPU timings against PyTorch, interleaved in one process: host time, kernels, a training step.

Device times are medians of CUDA events around single runs with the L2 flushed (`--flush`). Host times are
medians of slices. Rows come in order of importance. Each row is written to the result file when it is ready, and no row
starts after `--seconds`. Each row also has the model's time for this device, if `expect` has stored a table
of it.

Missing features are listed as not built. Exit status 2 means that there is no GPU.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from ...runtime.cuda.driver import is_simulated
from ...triton_kernels.tuning.flush import FLUSHES
from ...triton_kernels.tuning.in_force import tuning_in_force
from ..machine import describe_machine
from ..refusal import RefusalError, expression, require_positive, require_writable
from ..result_file import (
    installed_versions,
    kernel_driver_version,
    read_result,
    result_path,
    source_commit,
    source_version,
    utc_now,
    write_sections,
)
from ..suite.results import CONFIDENCE, Result
from .as_result import as_result_rows, limits_of
from .expected import rows_for
from .further_workloads import further_workloads
from .host_time import small_calls
from .llama_programs import llama_programs
from .network_programs import network_programs
from .optimizer_programs import optimizer_programs
from .peer import AGREEMENT, TF32_AGREEMENT, Pair, Peer
from .program import FAILURES, Program, measure_program
from .rehearsal import REHEARSAL_SCALE
from .rows import (
    COMPILED,
    EAGER,
    NOT_BUILT,
    NOT_HERE,
    OURS,
    PEER,
    Row,
    counted,
    format_rows,
    group_means,
)
from .statements import statement_runner, widened
from .timing import DeviceClock, Work
from .training_step import training_steps
from .work import work_of
from .workloads import Operand, Workload, all_workloads

tt: ModuleType = importlib.import_module("..", __package__.rpartition(".")[0])

SECTION = "bench"
NO_DEVICE = 2
ROTATED_BYTES = 1 << 28
MAX_SETS = 4
COPY_BYTES, REHEARSED_COPY_BYTES = 1 << 30, 1 << 16
PROGRAM_STEPS = 3
SAVE_SECONDS = 3.0
REHEARSED = "rehearsed"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m triten.perf gpu`."""
    parser.add_argument(
        "--rows", "--only", default="", metavar="REGEX", help="only rows whose `group: name` matches"
    )
    parser.add_argument("--rounds", type=int, default=31, help="timings of each row and rival")
    parser.add_argument(
        "--row-seconds", type=float, default=1.5, help="no round of a row begins after so many"
    )
    parser.add_argument("--seconds", type=float, help="no row begins after so many; what is there is valid")
    parser.add_argument("--no-peer", action="store_true", help="without PyTorch")
    parser.add_argument(
        "--flush", choices=FLUSHES, default="read",
        help="before each timed run: read a buffer larger than the L2 (default), set its bytes, which leaves dirty "
        "lines for the run to write back, or leave the L2 as it is",
    )  # fmt: skip
    parser.add_argument(
        "--no-compile", action="store_true", help="programs without tt.compile and torch.compile"
    )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="default: perf/results/<device>-<date>.json"
    )
    parser.add_argument(
        "--rehearse", action="store_true",
        help="tiny sizes, without a GPU too: that every row runs and agrees; its times say nothing",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Measure, keep, print."""
    started = time.monotonic()
    require_positive(arguments, "rounds", "row_seconds", "seconds")
    expression(arguments.rows)
    require_writable(arguments.output)
    if arguments.output is not None:
        try:
            read_result(arguments.output)
        except (OSError, ValueError) as error:
            raise RefusalError(f"--output {arguments.output} is there and no result file: {error}") from None
    if not tt.cuda.is_available():
        print("gpu: no CUDA GPU is available here: nothing was measured", file=sys.stderr)
        return NO_DEVICE
    simulated = is_simulated()
    if simulated and not arguments.rehearse:
        print(f"gpu: TRITEN_CUDA={os.environ['TRITEN_CUDA']} simulates a device, whose times say nothing: --rehearse "
              "runs every row", file=sys.stderr)  # fmt: skip
        return NO_DEVICE
    peer = Peer(not arguments.no_peer, simulated)
    bench = Bench(arguments, peer, simulated)
    if not simulated:
        bench.measure_copy()
    deadline = None if arguments.seconds is None else started + arguments.seconds
    try:
        for row in bench.rows():
            bench.note(row)
            if deadline is not None and time.monotonic() >= deadline:
                break
        else:
            bench.complete = True
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
    finally:
        bench.save()
    if not bench.found:
        print(f"no row matches {arguments.rows!r}", file=sys.stderr)
        return 2
    print(bench.table())
    wrong = [row for row in bench.found if row.note.startswith(("WRONG", "FAILED"))]
    return 1 if wrong else 0


class Bench:
    """The rows of one run, and the file that holds them."""

    def __init__(self, arguments: argparse.Namespace, peer: Peer, simulated: bool) -> None:
        self.arguments = arguments
        self.peer = peer
        self.simulated = simulated
        self.wanted = re.compile(arguments.rows)
        self.found: list[Row] = []
        self.complete = False
        self.copy_bandwidth: float | None = None
        self.copies: dict[int, float] = {}
        self.clock = DeviceClock(arguments.rehearse, arguments.flush)
        properties = tt.cuda.get_device_properties()
        self.path: Path = arguments.output or result_path(properties.name)
        self.started = utc_now()
        self.commit, self.kernel_driver = source_commit(), kernel_driver_version()
        self.versions = installed_versions() | {"triten": source_version()}
        if peer.library is not None:
            self.versions[PEER] = str(peer.library.__version__)
        self.device = properties.name
        self.expected = (
            {} if simulated or arguments.rehearse else rows_for(properties.capability, properties.name)
        )
        self._saved = time.monotonic()

    def measure_copy(self) -> None:
        """Measure the bandwidth of a large copy, the limit of the device."""
        nbytes = REHEARSED_COPY_BYTES if self.arguments.rehearse else COPY_BYTES
        self.copy_bandwidth = self.copy_of(nbytes)

    def copy_of(self, nbytes: int) -> float:
        """Return the bandwidth of a copy of so many bytes, in bytes read and written; measure it at first use."""
        known = self.copies.get(nbytes)
        if known is None:
            known, times = self.clock.copy_bandwidth(nbytes, self.arguments.rounds)
            self.copies[nbytes] = known
            name = f"device-to-device copy of {sized(nbytes)}"
            self.note(Row("yardstick", name, 2 * nbytes, times={OURS: times}))
        return known

    def matches(self, group: str, name: str = "") -> bool:
        """Return True if `--rows` selects a row."""
        return self.wanted.search(f"{group}: {name}") is not None

    def rows(self) -> Iterator[Row]:
        """Yield every row that `--rows` selects, in order of importance."""
        rounds = self.arguments.rounds
        slice_seconds = 0.0005 if self.arguments.rehearse else 0.002
        steps = 2 if self.arguments.rehearse else 20
        for group, measured in (
            ("host time", partial(small_calls, self.peer, rounds, slice_seconds)),
            ("training step", partial(training_steps, self.peer, max(rounds // 2, 5), steps)),
        ):
            if not self.arguments.rows or self.matches(group):
                yield from measured()
        scale = REHEARSAL_SCALE if self.arguments.rehearse else 1
        yield from self.programs([*network_programs(scale), *llama_programs(scale)])
        group = ""
        for workload in [*all_workloads(scale), *further_workloads(scale)]:
            if not self.matches(workload.group, workload.name):
                continue
            if workload.group != group:
                self.peer.empty_caches()
                group = workload.group
            yield self.row_of(workload)
        yield from self.programs(optimizer_programs(scale))

    def programs(self, programs: Iterable[Program]) -> Iterator[Row]:
        """Yield the rows of programs that `--rows` selects."""
        for program in programs:
            if self.matches(program.group, program.name):
                self.peer.empty_caches()
                row = measure_program(
                    program, self.peer, rounds=self.arguments.rounds, seconds=self.arguments.row_seconds,
                    count=1 if self.arguments.rehearse else PROGRAM_STEPS, compiled=not self.arguments.no_compile,
                )  # fmt: skip
                row.copy_bandwidth = self.copy_bandwidth
                yield row

    def row_of(self, workload: Workload) -> Row:
        """Measure a workload: compare both libraries' results, then time them interleaved."""
        row = Row(workload.group, workload.name, *work_of(workload))
        model = self.expected.get((workload.group, workload.name))
        row.expected = None if model is None else model.microseconds
        if workload.needs and not reaches(workload.needs):
            row.note = f"{NOT_BUILT}: tt.{workload.needs}"
            return row
        if workload.tf32:
            tt.set_float32_matmul_precision("high")
        elif reaches("set_float32_matmul_precision"):
            tt.set_float32_matmul_precision("highest")
        try:
            sets = [self.operands(workload) for _ in range(self.sets_of(workload))]
        except NotImplementedError as error:
            row.note = f"{NOT_HERE}: {error}"
            return row
        library = self.peer.library
        rivals: dict[str, Work] = {}
        if library is not None:
            library.set_float32_matmul_precision("high" if workload.tf32 else "highest")
            library.backends.cudnn.benchmark = True  # the best setting for the baseline
            theirs = statement_runner(workload, library, sets, 1)
            if workload.compiled and not self.simulated:
                rivals[COMPILED] = statement_runner(workload, library, sets, 1, compiled=True)
            backends = {} if self.simulated else workload.backends  # PyTorch has neither on a CPU
            rivals |= {name: under_backend(theirs, library, own) for name, own in backends.items()} or {
                PEER: theirs
            }
            self.keep_usable(row, rivals)
        try:
            rivals[OURS] = statement_runner(workload, tt, sets, 0, compiled=workload.compiled)
            if workload.compiled:
                rivals[EAGER] = statement_runner(workload, tt, sets, 0)
            wrong = self.disagreement(workload, rivals, sets[0])
        except (NotImplementedError, AttributeError) as error:
            row.note = f"{NOT_BUILT}: {error}"
            return row
        except tt.cuda.OutOfMemoryError as error:
            self.peer.empty_caches()
            row.note = f"out of memory: {error}"[:200]
            return row
        except FAILURES as error:
            row.note = f"FAILED: {type(error).__name__}: {error}"[:300]
            return row
        if wrong:
            row.note = f"WRONG: {wrong}"
            return row
        row.times = self.clock.contest(
            rivals,
            sets=len(sets),
            rounds=self.arguments.rounds,
            seconds=self.arguments.row_seconds,
            on_host=(PEER,) if self.simulated else (),
        )
        if row.nbytes and self.copy_bandwidth is not None:
            row.copy_bytes = copied_bytes(row.nbytes)
            row.copy_bandwidth = self.copy_of(row.copy_bytes)
        return row

    def keep_usable(self, row: Row, rivals: dict[str, Work]) -> None:
        """Run each rival once. Remove those that raise, and note the reason."""
        for name, work in list(rivals.items()):
            try:
                work(0)
            except FAILURES as error:
                del rivals[name]
                row.absent[name] = f"{type(error).__name__}: {error}"[:300]

    def sets_of(self, workload: Workload) -> int:
        """Return the number of input sets to rotate, so that together they far exceed the L2."""
        nbytes = sum(operand.nbytes for operand in workload.operands.values())
        return max(1, min(MAX_SETS, -(-ROTATED_BYTES // max(nbytes, 1))))

    def operands(self, workload: Workload) -> dict[str, Pair]:
        """Create a new input set."""
        return {name: self.operand(operand) for name, operand in workload.operands.items()}

    def operand(self, operand: Operand) -> Pair:
        if operand.high:
            return self.peer.randint(operand.high, operand.shape, operand.dtype)
        return self.peer.randn(operand.shape, operand.dtype, channels_last=operand.channels_last)

    def disagreement(
        self, workload: Workload, rivals: dict[str, Work], operands: Mapping[str, Pair]
    ) -> str | None:
        """Describe the error in triten's result; return None if it agrees, or without a baseline."""
        ours: Any = rivals[OURS](0)
        tt.cuda.synchronize()
        if PEER not in rivals or not workload.compared:
            return None
        theirs: Any = rivals[PEER](0)
        dtypes = [operand.dtype for operand in workload.operands.values()]
        allowed = TF32_AGREEMENT if workload.tf32 else max(AGREEMENT.get(dtype, 0.0) for dtype in dtypes)

        def exact() -> Any:
            wide = {name: Pair(None, widened(pair.theirs)) for name, pair in operands.items()}
            return statement_runner(workload, cast(ModuleType, self.peer.library), [wide], 1)(0)

        if not isinstance(theirs, tuple):
            return self.peer.disagreement(ours, theirs, allowed, exact)
        found = (
            self.peer.disagreement(mine, other, allowed, lambda index=index: exact()[index])
            for index, (mine, other) in enumerate(zip(ours, theirs, strict=True))
        )
        return next((each for each in found if each is not None), None)

    def note(self, row: Row) -> None:
        """Keep a row; of a rehearsal's times nothing follows, and sizes that are near become the same."""
        if self.arguments.rehearse:
            row.name = numbered(row, self.found)
            row.note = row.note or REHEARSED
        self.found.append(row)
        if time.monotonic() - self._saved > SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """Write the file; a rehearsal writes one only where `--output` says."""
        self._saved = time.monotonic()
        if self.arguments.rehearse and self.arguments.output is None:
            return
        rows = [row.as_json() for row in self.found]
        payload = {
            "complete": self.complete, "rehearsal": self.arguments.rehearse, "interpreted": self.simulated,
            "device": self.device, "peer": self.peer.note or PEER, "counts": dict(counted(self.found)),
            "rows": [{name: row[name] for name in row if name != "times"} for row in rows],
            "groups": [mean._asdict() for mean in group_means(self.found)], "flush": self.arguments.flush,
            "tuning": self.tuning(),
        }  # fmt: skip
        write_sections(self.path, self.result().as_json() | {SECTION: payload})

    def result(self) -> Result:
        """Return the rows in the suite's form."""
        settings = {
            "device": "cuda", "threads": 1, "confidence": CONFIDENCE, "rounds": self.arguments.rounds,
            "row_seconds": self.arguments.row_seconds, "quick": False, "collector": False, "graph": False,
            "flush": self.arguments.flush, "tuning": self.tuning(),
        }  # fmt: skip
        machine = describe_machine() | {"gpu": self.device, "kernel_driver": self.kernel_driver or None}
        return Result(
            machine, self.versions, settings, self.commit, list(getattr(self.arguments, "command_line", [])),
            limits_of(self.copy_bandwidth, self.found), as_result_rows(self.found), self.complete,
            self.arguments.rehearse, started=self.started, updated=utc_now(),
        )  # fmt: skip

    @staticmethod
    def tuning() -> dict[str, Any]:
        """Describe the configurations in force."""
        return tuning_in_force(tt.cuda.current_device())

    def table(self) -> str:
        """Format the rows with notes."""
        lines = [format_rows(self.found), ""]
        if self.copy_bandwidth:
            lines.append(
                f"a device-to-device copy moved {self.copy_bandwidth / 1e12:.2f} TB/s, read and written"
            )
        tuning = self.tuning()
        lines.append(
            f"L2 flush: {self.arguments.flush}; tuning: {tuning['valid']} of {tuning['entries']} entries of "
            f"{tuning['table']} are valid, {tuning['recorded']} recorded"
        )
        if self.peer.note:
            lines.append(f"no peer: {self.peer.note}")
        if self.arguments.rehearse:
            lines.append("a rehearsal: its times say nothing")
        counts = ", ".join(f"{count} {verdict}" for verdict, count in counted(self.found).items())
        lines.append(f"{'complete' if self.complete else 'INCOMPLETE'}: {len(self.found)} rows: {counts}")
        if not (self.arguments.rehearse and self.arguments.output is None):
            lines.append(f"written to {self.path}")
        return "\n".join(lines)


def numbered(row: Row, earlier: Iterable[Row]) -> str:
    """Return a row's name, with a number appended if another row of its group has the same name.

    Example:
        >>> row = Row("norms", "layer_norm 16x16 float32")
        >>> numbered(row, [row])
        'layer_norm 16x16 float32 (2)'
    """
    names = {other.name for other in earlier if other.group == row.group}
    name, number = row.name, 1
    while name in names:
        number += 1
        name = f"{row.name} ({number})"
    return name


def copied_bytes(nbytes: int) -> int:
    """Return the size of the copy that moves as many bytes as a row, to two or three digits.

    Rows of nearly the same size share a copy.

    Example:
        >>> copied_bytes(2 * 128 * 2**20 + 32768) == 128 * 2**20
        True
    """
    half = max(nbytes // 2, 1)
    step = 1 << max(half.bit_length() - 7, 0)
    return round(half / step) * step


def sized(nbytes: int) -> str:
    """Format a size, a power of 1024 if one divides it.

    Example:
        >>> sized(1 << 30), sized(3 << 19), sized(100)
        ('1 GiB', '1536 KiB', '100 B')
    """
    for unit, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if nbytes and nbytes % (1 << unit) == 0:
            return f"{nbytes >> unit} {name}"
    return f"{nbytes} B"


def reaches(path: str) -> bool:
    """Return True if a public name of triten exists."""
    value: Any = tt
    for name in path.split("."):
        value = getattr(value, name, None)
    return value is not None


def under_backend(work: Work, library: ModuleType, name: str) -> Work:
    """Run the work with PyTorch's attention backend of this name, such as ``FLASH_ATTENTION``."""
    attention = importlib.import_module(f"{library.__name__}.nn.attention")
    backend = getattr(attention.SDPBackend, name)

    def chosen(number: int) -> object:
        with attention.sdpa_kernel(backend):
            return work(number)

    return chosen
