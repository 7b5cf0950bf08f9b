"""`python -m triten.dispatch.codegen docs [FAMILY...]`: what lacks documentation, and the examples that fail."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from .docs import HOW_TO_WRITE
from .docstrings import Docstrings, is_function, is_method
from .documentation import documentation_of
from .examples import failures_of
from .functions import packets_of
from .load import Operators, load_functions
from .location import ModelError
from .signature import PythonSignature

DERIVATIVES = "_backward"
"""Names that end so are no users' functions: Python reaches derivatives through ``ops.aten``."""

PUBLIC_DERIVATIVES = frozenset({"native_dropout_backward"})


def signatures_of(operators: Operators) -> dict[str, PythonSignature]:
    """The signatures of all names that Python sees."""
    return {
        n: s for family in operators.families() for n, s in packets_of(operators.of_family(family)).items()
    }


def is_public(signature: PythonSignature) -> bool:
    """Whether users call the name, so that it needs documentation."""
    name = signature.name
    if name.startswith("_") or not (is_function(signature) or is_method(signature)):
        return False
    return is_method(signature) or not name.endswith(DERIVATIVES) or name in PUBLIC_DERIVATIVES


def faults_of(
    operators: Operators, families: Collection[str]
) -> tuple[list[PythonSignature], list[str], int]:
    """Names of some families without documentation; reports of examples that fail; how many examples ran.

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


def main(folder: Path, wanted: Sequence[str]) -> int:
    """Print the report; the exit status says whether anything is missing or fails. Raises SystemExit for a typo."""
    operators = load_functions(folder)
    families = operators.families()
    unknown = sorted(set(wanted) - set(families))
    if unknown:
        raise SystemExit(f"no families {unknown}; there are {families}")
    missing, reports, count = faults_of(operators, wanted or families)
    for report in reports:
        print(report)
    if missing:
        print(f"{len(missing)} names lack documentation:")
        for signature in missing:
            first = signature.first
            print(f"  {signature.name} ({first.location.file}:{first.location.line})")
        print(
            f"Write on the first entry of each, or for another name of NAME docs: {{alias_of: NAME}}:\n{HOW_TO_WRITE}"
        )
    print(f"{count} examples ran, {len(reports)} failed; {len(missing)} names lack documentation")
    return 1 if missing or reports else 0


__all__ = ["faults_of", "is_public", "main", "signatures_of"]
