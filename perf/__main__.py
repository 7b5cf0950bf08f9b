"""The measurements as commands: `python -m triten.perf NAME [options]`."""

from __future__ import annotations

import argparse
import os
import sys
from importlib import import_module
from typing import NoReturn

from .refusal import RefusalError

# A measurement is imported when it is asked for: some need Triton, and none needs the others.
MEASUREMENTS = {
    "run": (".suite.run", "time the suites beside peers and limits, into a result file"),
    "compare": (".suite.compare", "two result files, or two commits: what became faster or slower"),
    "history": (".history.command", "runs in one SQLite file: add, list, export, change points"),
    "gate": (".gate.command", "judge a change by its benchmarks: Markdown for CI, exit status by policy"),
    "profile": (".host_profile.command", "where a script's host time goes, by operator and layer"),
    "report": (".report.command", "result files as a page that works offline, as markdown or JSON"),
    "serve": (".serve.command", "show runs in a browser as they arrive, and the progress of a running one"),
    "memory": (".memory", "bytes of a small tensor"),
    "graph": (".graph", "what graphs of operators cost"),
    "launch": (".launch", "host time of a kernel's launch"),
    "aot": (".aot", "every kernel compiled for real targets and held to its budget"),
    "kernel-wheels": (
        ".kernel_wheels",
        "wheels of compiled kernels, which triten finds instead of compiling",
    ),
    "gpu": (".gpu.command", "times on a GPU beside PyTorch, held to targets"),
    "expect": (".gpu.expected", "what those times are by a model of the kernels' code; needs no GPU"),
    "programs": (".programs.command", "programs of other people, written for PyTorch: which run, how fast"),
    "clients": (".clients.command", "third-party Triton and PyTorch packages, without PyTorch: which run"),
    "interconnect": (".interconnect", "what joins ranks of this machine, measured; predictions beside times"),
    "tune": (".gpu.tune", "measure the configurations of kernels on a GPU"),
    "plan": (".gpu.plan", "checks, tuning, variants and benchmarks of a GPU in 30 minutes"),
    "variants": (".gpu.variants", "configurations of kernels against the default, on a GPU"),
}
ALIASES = {("gpu", "plan"): "plan", ("gpu", "variants"): "variants"}


REFUSED = 2
INTERRUPTED = 130
PIPE_CLOSED = 141


class Parser(argparse.ArgumentParser):
    """Argument parser that reports errors in one line."""

    def error(self, message: str) -> NoReturn:
        """End with status 2."""
        self.exit(REFUSED, f"{self.prog.rpartition(' ')[2]}: {message} (--help lists what there is)\n")


def main() -> int:
    """Run the measurement that the command line names; bad input, Ctrl-C and a closed pipe leave no traceback."""
    try:
        status = _run()
        sys.stdout.flush()
        return status
    except RefusalError as error:
        print(f"{sys.argv[1]}: {error}", file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        print(f"{' '.join(sys.argv[1:2])}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has closed the pipe; flushing the buffer at exit must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED


def _run() -> int:
    parser = Parser(prog="python -m triten.perf", description="Measure triten beside its peers.")
    commands = parser.add_subparsers(dest="measurement", required=True)
    if tuple(sys.argv[1:3]) in ALIASES:
        sys.argv[1:3] = [ALIASES[sys.argv[1], sys.argv[2]]]
    command = sys.argv[1:2]
    for name, (path, summary) in MEASUREMENTS.items():
        if command == [name]:
            module = import_module(path, __package__)
            module.add_arguments(commands.add_parser(name, help=summary, description=module.__doc__))
        else:
            commands.add_parser(name, help=summary)
    arguments = parser.parse_args()
    arguments.command_line = sys.argv[1:]
    status: int = import_module(MEASUREMENTS[arguments.measurement][0], __package__).run(arguments)
    return status


if __name__ == "__main__":
    sys.exit(main())
