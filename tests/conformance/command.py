"""The command line of the conformance run."""

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .outcome import Tally

MODES = (
    "forward",
    "reference",
    "layouts",
    "strides",
    "dtypes",
    "errors",
    "out",
    "inplace",
    "gradient",
    "forward_ad",
    "gradgrad",
    "second_order",
    "modules",
    "optimizers",
    "sparse",
)
SPEED, ROUNDING = "speed", "rounding"
IN_DOUBLE = {"gradient", "forward_ad", "gradgrad", "second_order", "modules", "optimizers", "sparse"}


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if all agree or differ as known, 1 if something differs, 2 if PyTorch is not installed."""
    options = _parser().parse_args(arguments)
    if importlib.util.find_spec("torch") is None:
        print("conformance needs PyTorch as its oracle: make conformance installs it", file=sys.stderr)
        return 2
    if SPEED in options.mode:
        from .speed.survey import survey

        return survey(options)
    if ROUNDING in options.mode:
        from .rounding import rounding

        return rounding(options)
    tallies = list(run(options))
    if options.json:
        with open(options.json, "w") as file:
            json.dump([asdict(tally) | {"status": tally.status} for tally in tallies], file, indent=1)
    return 1 if any(tally.status == "fail" for tally in tallies) else 0


def run(options: argparse.Namespace) -> "Iterator[Tally]":
    """Run every chosen operator in every chosen mode; print findings and totals."""
    import warnings

    import torch

    from .judgement import judge
    from .known_differences import read
    from .modes import BY_NAME
    from .modes.mode import Settings

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    known = read()
    for name in options.mode or MODES:
        dtype = options.dtype or ("float64" if name in IN_DOUBLE else "float32")
        settings = Settings(getattr(torch, dtype), options.device, options.max_samples, options.max_numel)
        started, tallies = time.monotonic(), []
        having = None if name == "dtypes" else settings.dtype
        operators = [
            op for op in BY_NAME[name].entries(options.ops, having) if BY_NAME[name].applies(op, settings)
        ]
        for operator in _with_progress(operators, f"{name} {dtype} {options.device}", options.quiet):
            tally = judge(operator, BY_NAME[name], settings, options.seconds, known)
            tallies.append(tally)
            if not options.quiet:
                _print_findings(tally, options.verbose)
            yield tally
        print(total(f"{name} {options.device} {dtype}", tallies, time.monotonic() - started), flush=True)


def total(title: str, tallies: "list[Tally]", seconds: float) -> str:
    """Return one line on a mode's results."""
    count = {
        status: sum(t.status == status for t in tallies) for status in ("pass", "fail", "known", "missing")
    }
    cases = sum(tally.cases - tally.outside for tally in tallies)
    passed = sum(tally.passed for tally in tallies)
    judged = sum(count.values())
    texts = f"; messages alike {sum(t.texts for t in tallies)}/{passed}" if title.startswith("errors") else ""
    return (
        f"conformance {title}: {count['pass']} of {judged} operators pass, {count['fail']} fail, "
        f"{count['known']} differ on purpose, {count['missing']} missing; cases {passed}/{cases}{texts}; "
        f"{seconds:.0f} s"
    )


def _print_findings(tally: "Tally", verbose: bool) -> None:
    if tally.status == "missing":
        print(f"MISSING {tally.mode} {tally.operator}", flush=True)
    elif tally.status == "fail":
        shown = tally.findings if verbose else tally.findings[:1]
        judged = tally.cases - tally.outside
        for finding in shown:
            print(f"FAIL {tally.mode} {tally.operator}: {tally.passed}/{judged}; {finding}", flush=True)


def _with_progress(operators: list[Any], title: str, quiet: bool) -> Iterable[Any]:
    """Yield the same operators, with a progress bar on a terminal if `rich` is installed."""
    if quiet or not sys.stderr.isatty() or importlib.util.find_spec("rich") is None:
        return operators
    from rich.console import Console
    from rich.progress import track

    return track(operators, title, console=Console(stderr=True), transient=True)


def _part(text: str) -> tuple[int, int]:
    number, _, of = text.partition("/")
    if not 1 <= int(number) <= int(of):
        raise argparse.ArgumentTypeError(f"I/N with I from 1 to N expected, {text!r} given")
    return int(number), int(of)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -P -m triten.tests.conformance",
        description="Hold every operator of PyTorch's OpInfo database against PyTorch.",
    )
    parser.add_argument(
        "mode",
        nargs="*",
        choices=[*MODES, SPEED, ROUNDING, []],
        help=f"of {', '.join(MODES)}, all by default; or {SPEED}: how fast, beside PyTorch; "
        f"or {ROUNDING}: how far from float64, beside PyTorch",
    )
    parser.add_argument("--ops", default="", metavar="REGEX", help="operators whose names it finds")
    parser.add_argument(
        "--dtype", default="", help="float32 by default, float64 for derivatives, modules and optimizers"
    )
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda", "meta"])
    parser.add_argument("--max-samples", type=int, default=0, metavar="N", help="of each operator; 0: all")
    parser.add_argument(
        "--max-numel", type=int, default=0, metavar="N", help="leave larger operands out; 0: none"
    )
    parser.add_argument("--seconds", type=int, default=120, metavar="N", help="for one operator in one mode")
    parser.add_argument(
        "--threads", type=int, default=1, metavar="N", help="of both, while speed is measured"
    )
    parser.add_argument(
        "--part",
        type=_part,
        default=(1, 1),
        metavar="I/N",
        help="of the speeds: every Nth operator from the Ith on",
    )
    parser.add_argument("--json", metavar="FILE", help="write every operator's findings to it")
    parser.add_argument("--quiet", action="store_true", help="the totals alone")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="every finding, not the first of each operator"
    )
    return parser
