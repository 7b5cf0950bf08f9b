"""The measurements as commands: `python -m triten.perf NAME [options]`."""

from __future__ import annotations

import argparse
import sys
from types import ModuleType

from . import allocator, aot, graph, import_time, launch, memory, overhead
from .gpu import command as gpu
from .gpu import tune

MEASUREMENTS: dict[str, ModuleType] = {
    "overhead": overhead,
    "import-time": import_time,
    "memory": memory,
    "allocator": allocator,
    "graph": graph,
    "launch": launch,
    "aot": aot,
    "gpu": gpu,
    "tune": tune,
}


def main() -> int:
    """Run the measurement that the command line names."""
    parser = argparse.ArgumentParser(
        prog="python -m triten.perf", description="Measure triten beside its peers."
    )
    commands = parser.add_subparsers(dest="measurement", required=True)
    for name, module in MEASUREMENTS.items():
        summary = (module.__doc__ or "").partition("\n")[0]
        module.add_arguments(commands.add_parser(name, help=summary, description=module.__doc__))
    arguments = parser.parse_args()
    status: int = MEASUREMENTS[arguments.measurement].run(arguments)
    return status


if __name__ == "__main__":
    sys.exit(main())
