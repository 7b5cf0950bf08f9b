"""`python -m triten.dispatch.codegen.check_docs [FAMILY...]`: what lacks documentation, and examples that fail."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection
from pathlib import Path

from .docs import HOW_TO_WRITE
from .docstrings import Docstrings, is_function, is_method
from .documentation import documentation_of
from .examples import failures_of
from .functions import signatures_of
from .load import Operators, load_functions
from .location import ModelError
from .signature import PythonSignature

DERIVATIVES = "_backward"
"""Names that end so are no users' functions: Python reaches derivatives through ``ops.aten``."""

PUBLIC_DERIVATIVES = frozenset({"native_dropout_backward"})

WRAPPED = frozenset(
    {
        "atleast_1d",
        "atleast_2d",
        "atleast_3d",
        "block_diag",
        "broadcast_tensors",
        "cartesian_prod",
        "cdist",
        "chain_matmul",
        "einsum",
        "meshgrid",
        "tensordot",
    }
)
"""Operators whose public functions are written by hand, in `triten/functional.py`, and documented there."""


def is_public(signature: PythonSignature) -> bool:
    """Return whether users call the name, so that it needs documentation."""
    name = signature.name
    if name.startswith("_") or name in WRAPPED or not (is_function(signature) or is_method(signature)):
        return False
    return is_method(signature) or not name.endswith(DERIVATIVES) or name in PUBLIC_DERIVATIVES


def faults_of(
    operators: Operators, families: Collection[str]
) -> tuple[list[PythonSignature], list[str], int]:
    """Check the documentation of families: undocumented names, reports of failing examples, number of examples run.

    In-place forms, which are documented with their functions, are not named.
    """
    signatures = signatures_of(operators)
    documentation = documentation_of(operators.functions)
    docstrings = Docstrings(signatures, documentation)
    missing: list[PythonSignature] = []
    reports: list[str] = []
    count = 0
    for name, signature in signatures.items():
        if signature.first.family not in families or not is_public(signature):
            continue
        if name not in documentation:
            if name.removesuffix("_") not in signatures or not name.endswith("_"):
                missing.append(signature)
            continue
        count += 1
        try:
            report = failures_of(docstrings.example_of(name), name)
        except ModelError as error:
            report = f"{error}\n"
        if report and documentation[name].is_in_place:
            report += f"The example of {name} was made of that of {name[:-1]}: write example_in_place.\n"
        reports += [report] if report else []
    return missing, reports, count


def main() -> int:
    """Print the report; the exit status says whether anything is missing or fails."""
    operators = load_functions(Path(__file__).parents[1] / "native_functions")
    families = operators.families()
    parser = argparse.ArgumentParser(prog="python -m triten.dispatch.codegen.check_docs", description=__doc__)
    parser.add_argument(
        "families", nargs="*", metavar="FAMILY", help="a file of native_functions; all by default"
    )
    selected = parser.parse_args().families or families
    if not set(selected) <= set(families):
        parser.error(f"no families {sorted(set(selected) - set(families))}; there are {families}")
    missing, reports, count = faults_of(operators, selected)
    for report in reports:
        print(report)
    if missing:
        print(f"{len(missing)} names lack documentation:")
        for signature in missing:
            location = signature.first.location
            print(f"  {signature.name} ({location.file}:{location.line})")
        print(
            f"Write on the first entry of each, or for another name of NAME docs: {{alias_of: NAME}}:\n{HOW_TO_WRITE}"
        )
    print(f"{count} examples ran, {len(reports)} failed; {len(missing)} names lack documentation")
    return 1 if missing or reports else 0


if __name__ == "__main__":
    sys.exit(main())
