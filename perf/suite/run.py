"""Time triten against its baselines, suite by suite, or your own benchmarks, into a result file.

Libraries run interleaved in one process. The result has medians over the rounds, with confidence intervals of
their ratios, and the machine's limits, measured in the same run. A full run on the CPU uses several
processes, whose medians are its samples.

`-o FILE` is written after every row of one process, and after every process of several, so Ctrl-C keeps the
completed part. Exit status 1: a result differs from a baseline's, or a call failed; 2: the request cannot be
met.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from ...runtime.cuda.driver import is_simulated
from ..machine import describe_machine
from ..refusal import expression, require_positive, require_writable
from ..result_file import installed_versions, kernel_driver_version, source_commit
from ..user_benchmarks.loading import FunctionWorkload, load_benchmarks
from ..user_benchmarks.measurement import FunctionMeasurement
from .cores import Cores, available_cores
from .device_work import FLUSH, DeviceWork
from .display import format_head, format_result, progress
from .libraries import ALL_PEERS, Library, SetupError, installed_peers, load_libraries, tt
from .limits import measure_limits
from .measurement import Effort, Measurement
from .processes import (
    PROCESS_ROUNDS,
    PROCESS_ROW_SECONDS,
    PROCESSES,
    ProcessFailed,
    measure_in_processes,
)
from .progress_file import ProgressFile, progress_path
from .results import CONFIDENCE, Result, ResultWriter, write_result
from .workload import Scale, Workload
from .workloads import SUITES, all_workloads

QUICK = Effort(rounds=9, slice_seconds=0.0004, row_seconds=0.15, precision=0.05)
FULL = Effort()
REHEARSED = Effort(rounds=1, slice_seconds=1e-6, row_seconds=0.0)
INTERRUPTED = 130


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `python -m triten.perf run`."""
    parser.add_argument(
        "files", nargs="*", type=Path, metavar="FILE.py",
        help="files with your own benchmarks (@tt.perf.benchmark), in place of the suites",
    )  # fmt: skip
    parser.add_argument(
        "--suite", nargs="+", action="extend", metavar="NAME", help=f"default: all of {', '.join(SUITES)}"
    )
    parser.add_argument(
        "--rows", default="", metavar="REGEX", help="only benchmarks whose line of `--list` matches"
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument(
        "--peers", nargs="*", choices=ALL_PEERS, help="default: those installed that compute on the device"
    )
    parser.add_argument(
        "--quick", action="store_true", help="smaller sizes and fewer rounds: all suites in a minute"
    )
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="the result file; one that is there is replaced"
    )
    parser.add_argument(
        "--progress", type=Path, metavar="FILE",
        help="write the benchmark that is measured now to FILE, which `serve` shows (default: OUTPUT.progress)",
    )  # fmt: skip
    parser.add_argument(
        "--threads", type=int, help="of every library; default: the cores (small calls take one)"
    )
    parser.add_argument("--rounds", type=int, help="most rounds of a benchmark")
    parser.add_argument("--row-seconds", type=float, help="no round of a benchmark begins after so many")
    parser.add_argument(
        "--precision",
        type=float,
        metavar="SHARE",
        help="a benchmark is done when the intervals of its ratios are narrower than this on both sides",
    )
    parser.add_argument(
        "--processes", type=int, metavar="COUNT",
        help=f"measure every benchmark in so many processes one after the other, whose medians are the samples "
        f"(default: {PROCESSES} on the CPU, where two runs then agree in their results; 1 for --quick, --rehearse "
        "and --device cuda)",
    )  # fmt: skip
    parser.add_argument("--gc", action="store_true", help="leave the garbage collector on while timing")
    parser.add_argument("--graph", action="store_true", help="on CUDA: replay triten's work from CUDA graphs")
    parser.add_argument("--python", default=sys.executable, help="interpreter for the suite `import`")
    parser.add_argument("--list", action="store_true", help="print the benchmarks and measure nothing")
    parser.add_argument(
        "--rehearse",
        action="store_true",
        help="tiny sizes, one round, a simulated device too: that every benchmark runs and agrees",
    )


def run(arguments: argparse.Namespace) -> int:
    """Measure, keep, print. Raises RefusalError, of which `SetupError` and `ResultFileError` are kinds."""
    workloads = _chosen(arguments)
    if arguments.list:
        print("\n".join(workload.title.replace("  ", " ").rstrip() for workload in workloads))
        return 0
    effort = _effort(arguments)
    processes = _processes(arguments)
    simulated = arguments.device == "cuda" and is_simulated()
    if simulated and not arguments.rehearse:
        raise SetupError(
            f"TRITEN_CUDA={os.environ['TRITEN_CUDA']} simulates a device, whose times say nothing: --rehearse runs "
            "every benchmark"
        )
    own = [workload for workload in workloads if isinstance(workload, FunctionWorkload)]
    peers = arguments.peers
    if peers is None:
        peers = installed_peers(arguments.device) if len(own) < len(workloads) else []
    libraries = load_libraries(peers, arguments.device, simulated)
    threads = _threads(arguments.threads)
    if processes > 1:
        return _run_processes(arguments, processes)
    held = [library.set_threads(threads) for library in libraries]
    device = DeviceWork(simulated, arguments.graph) if arguments.device == "cuda" else None
    result = _begun(arguments, effort, libraries, threads)
    try:
        with Cores(available_cores()[:threads]) as cores:
            result.settings = {**result.settings, "cores": cores.held or None, "blas_held": all(held)}
            writer = ResultWriter(result, arguments.output)
            measurement = Measurement(libraries, effort, threads, device, cores)
            functions = FunctionMeasurement(libraries[0], own, effort, threads, device, cores)
            result.limits = measure_limits(_scale(arguments), libraries[0], device, cores)
            print(format_head(result), file=sys.stderr)
            noted = ProgressFile(_progress_path(arguments))
            with progress(len(workloads)) as shown, noted:
                for number, workload in enumerate(workloads):
                    shown.begin(workload.title)
                    noted.write(title=workload.title, done=number, total=len(workloads))
                    measured_by = functions if isinstance(workload, FunctionWorkload) else measurement
                    writer.add(measured_by.row(workload))
                    shown.done()
            writer.finish()
    except KeyboardInterrupt:
        return _interrupted(result, arguments.output)
    return _finished(result, arguments.output)


def _run_processes(arguments: argparse.Namespace, processes: int) -> int:
    """Run the command with several processes."""
    command = list(arguments.command_line)
    # The last of two equal options counts: those that were given stay as they are.
    if arguments.rounds is None:
        command += ["--rounds", str(PROCESS_ROUNDS)]
    if arguments.row_seconds is None:
        command += ["--row-seconds", str(PROCESS_ROW_SECONDS)]
    merged: list[Result] = []

    def keep(result: Result) -> None:
        result.settings = {**result.settings, "processes": processes}
        result.command = list(arguments.command_line)
        merged[:] = [result]
        write_result(result, arguments.output)

    require_writable(arguments.output)
    path = _progress_path(arguments)
    if path is not None and arguments.progress is None:
        command += ["--progress", str(path)]
    noted = ProgressFile(path)

    def show(description: str) -> None:
        print(description, file=sys.stderr)
        noted.write(part=description)

    try:
        with noted:
            measure_in_processes(command, processes, keep, show)
    except ProcessFailed as failure:
        return failure.status
    except KeyboardInterrupt:
        if not merged:
            raise
        merged[0].complete = False
        write_result(merged[0], arguments.output)
        return _interrupted(merged[0], arguments.output)
    return _finished(merged[0], arguments.output)


def _progress_path(arguments: argparse.Namespace) -> Path | None:
    if arguments.progress is not None:
        return Path(arguments.progress)
    return None if arguments.output is None else progress_path(arguments.output)


def _interrupted(result: Result, output: Path | None) -> int:
    print(format_result(result))
    file_note = f"; {output} has what was done" if output else ""
    print(f"run: interrupted{file_note}", file=sys.stderr)
    return INTERRUPTED


def _finished(result: Result, output: Path | None) -> int:
    print(format_result(result))
    if output:
        print(f"written to {output}")
    wrong = ("WRONG", "FAILED in triten", "FAILED while")
    return 1 if any(row.note.startswith(wrong) for row in result.rows) else 0


def _scale(arguments: argparse.Namespace) -> Scale:
    return Scale(arguments.device, arguments.quick, arguments.rehearse, arguments.python)


def chosen(suites: Sequence[str], rows: str, scale: Scale) -> list[Workload]:
    """Return the matching workloads of suites. Raise SetupError for an unknown suite, or if none matches."""
    unknown = [name for name in suites if name not in SUITES]
    if unknown:
        raise SetupError(f"no suite is called {unknown[0]!r}; there are {', '.join(SUITES)}")
    pattern = expression(rows)
    workloads = all_workloads(list(dict.fromkeys(suites)), scale)
    selected = [workload for workload in workloads if pattern.search(workload.title)]
    if not selected:
        raise SetupError(f"no benchmark of {', '.join(suites)} matches {rows!r}")
    return selected


def _chosen(arguments: argparse.Namespace) -> list[Workload]:
    """Return the matching workloads of the suites and of the user's files."""
    if not arguments.files:
        return chosen(arguments.suite or list(SUITES), arguments.rows, _scale(arguments))
    pattern = expression(arguments.rows)
    of_suites = chosen(arguments.suite, "", _scale(arguments)) if arguments.suite else []
    workloads = [*load_benchmarks(arguments.files), *of_suites]
    matching = [workload for workload in workloads if pattern.search(workload.title)]
    if not matching:
        raise SetupError(f"no benchmark of {', '.join(map(str, arguments.files))} matches {arguments.rows!r}")
    return matching


def _processes(arguments: argparse.Namespace) -> int:
    require_positive(arguments, "processes")
    if arguments.processes is not None:
        return int(arguments.processes)
    alone = arguments.quick or arguments.rehearse or arguments.device == "cuda"
    return 1 if alone else PROCESSES


def _effort(arguments: argparse.Namespace) -> Effort:
    base = REHEARSED if arguments.rehearse else QUICK if arguments.quick else FULL
    require_positive(arguments, "rounds", "row_seconds", "precision", "threads")
    if arguments.graph and arguments.device != "cuda":
        raise SetupError("--graph replays CUDA graphs: it needs --device cuda")
    if shutil.which(arguments.python) is None:
        raise SetupError(f"--python {arguments.python}: there is no such program, or it cannot be run")
    return Effort(
        base.rounds if arguments.rounds is None else arguments.rounds,
        base.slice_seconds,
        base.row_seconds if arguments.row_seconds is None else arguments.row_seconds,
        base.precision if arguments.precision is None else arguments.precision,
        CONFIDENCE,
        arguments.gc,
    )


def _threads(requested: int | None) -> int:
    """Return the number of threads of every library: the number of cores, or fewer."""
    cores = len(available_cores()) or os.cpu_count() or 1
    threads = requested or cores
    if threads > cores:
        raise SetupError(f"--threads {threads}: this process may use {cores} cores")
    return threads


def _begun(
    arguments: argparse.Namespace,
    effort: Effort,
    libraries: list[Library],
    threads: int,
) -> Result:
    on_gpu = arguments.device == "cuda"
    gpu = tt.cuda.get_device_properties().name if on_gpu else None
    driver = (kernel_driver_version() or None) if on_gpu else None
    machine = describe_machine() | {"gpu": gpu, "kernel_driver": driver}
    versions = installed_versions() | {library.name: library.version for library in libraries}
    settings = {
        "device": arguments.device, "threads": threads, "confidence": effort.confidence, "precision": effort.precision,
        "rounds": effort.rounds, "slice_seconds": effort.slice_seconds, "row_seconds": effort.row_seconds,
        "quick": arguments.quick, "collector": arguments.gc, "graph": arguments.graph, "processes": 1,
        "flush": FLUSH if on_gpu else None,
    }  # fmt: skip
    return Result(
        machine, versions, settings, source_commit(), list(getattr(arguments, "command_line", [])),
        rehearsal=arguments.rehearse,
    )  # fmt: skip
