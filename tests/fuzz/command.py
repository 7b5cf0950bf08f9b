"""Command line of the fuzz targets."""

import argparse
import datetime
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from .campaigns import CAMPAIGNS, ON_REQUEST, campaign_named
from .found_cases import FoundCase, append
from .search import Family, Search


def main(arguments: list[str] | None = None) -> int:
    """Run the command line: return 0 for no findings, 1 for findings, 2 if a requirement is missing."""
    options = _parser().parse_args(arguments)
    names = options.campaign or [name for name in CAMPAIGNS if name not in ON_REQUEST]
    found = False
    for name in names:
        campaign = campaign_named(name)
        python = sys.executable
        if campaign.needs_oracle:
            python = options.oracle or sys.executable
            if not _has_pytorch(python):
                lacking = f"{name} needs PyTorch as its oracle, which {python} does not have"
                print(f"{lacking}: make conformance installs it", file=sys.stderr)
                return 2
        search = Search(
            campaign,
            python,
            seed=options.seed,
            seconds=0 if options.cases else options.seconds / len(names),
            cases=options.cases,
            tries=options.tries,
            report=_reporter(name, options.found),
        )
        totals = search.run(options.jobs)
        for line in totals.unrepeated:
            print(f"NOT AGAIN {line}")
        print(totals.line(), flush=True)
        if options.json:
            with options.json.open("a") as file:
                families = {key: family.count for key, family in totals.families.items()}
                print(
                    json.dumps(
                        {"campaign": name, "seconds": totals.seconds}
                        | {"outcomes": totals.outcomes, "families": families}
                    ),
                    file=file,
                )
        found = found or bool(totals.families)
    return 1 if found else 0


def _reporter(name: str, path: Path | None) -> Callable[[Family], None]:
    def report(family: Family) -> None:
        finding = family.finding
        program = "\n    ".join(family.program.splitlines())
        print(f"FOUND {family.seed}: {finding.kind}: {finding.message}\n    {program}", flush=True)
        if path is not None and family.record is not None:
            date = datetime.datetime.now(datetime.UTC).date().isoformat()
            append(path, FoundCase(name, family.record, finding.kind, finding.message, date))

    return report


def _has_pytorch(python: str) -> bool:
    done = subprocess.run(
        [python, "-P", "-c", "import importlib.util as u; raise SystemExit(u.find_spec('torch') is None)"],
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -P -m triten.tests.fuzz",
        description="Look for faults with drawn cases. The case of a seed is always the same.",
    )
    parser.add_argument(
        "campaign",
        nargs="*",
        choices=[*CAMPAIGNS, []],
        help=f"of {', '.join(CAMPAIGNS)}; all but {', '.join(sorted(ON_REQUEST))} by default",
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, metavar="N", help="for all campaigns together, 60 by default"
    )
    parser.add_argument(
        "--cases", type=int, default=0, metavar="N", help="of each campaign, in place of seconds"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the run, 1 by default")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="workers at once, 1 by default")
    parser.add_argument(
        "--tries", type=int, default=200, metavar="N", help="cases run to make one smaller, 200 by default"
    )
    parser.add_argument(
        "--found", type=Path, metavar="FILE", help="append minimised findings to it, as found/ has them"
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="append the totals to it, a line for each campaign"
    )
    parser.add_argument(
        "--oracle", default="", metavar="PYTHON", help="a Python with PyTorch; this one by default"
    )
    return parser
