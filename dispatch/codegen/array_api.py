"""`python -m triten.dispatch.codegen.array_api [--check]`: write `elementwise_functions.py`, or check it.

A row of `triten/array_api/elementwise_functions.yaml` is a function of the standard. Its text is plain: equal dtypes
go to a plan of the operator, everything else to the standard's promotion.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .load import read_entries
from .location import Location, ModelError

FOLDER = Path(__file__).resolve().parents[2] / "triten" / "array_api"
ROWS = FOLDER / "elementwise_functions.yaml"
MODULE = FOLDER / "elementwise_functions.py"
STANDARD = "https://data-apis.org/array-api/2025.12/API_specification/generated/array_api"
KINDS = frozenset(
    {
        "all",
        "bool",
        "complex floating-point",
        "floating-point",
        "integer",
        "integer or bool",
        "numeric",
        "real floating-point",
        "real numeric",
    }
)
"""The kinds of dtypes by which the standard says what a function takes."""

_FIELDS = frozenset({"name", "operands", "calls", "dtypes", "numbers", "summary", "example", "result"})


@dataclass(frozen=True)
class ElementwiseFunction:
    """A row: a function of the standard, and what computes it for operands of equal dtypes."""

    name: str
    operands: int
    calls: str
    dtypes: str
    takes_numbers: bool
    summary: str
    example: str
    result: str

    @classmethod
    def from_fields(cls, fields: dict[str, Any], location: Location) -> ElementwiseFunction:
        """Parse a row. Raises ModelError for missing, unknown or invalid fields."""
        unknown = sorted(set(fields) - _FIELDS)
        missing = sorted(_FIELDS - {"calls", "numbers"} - set(fields))
        if unknown or missing:
            raise ModelError(f"{location}: unknown fields {unknown}, missing fields {missing}")
        if fields["operands"] not in (1, 2):
            raise ModelError(f"{location}: expected 1 or 2 operands, got {fields['operands']}")
        if fields["dtypes"] not in KINDS:
            raise ModelError(f"{location}: dtypes are one of {sorted(KINDS)}, not {fields['dtypes']!r}")
        return cls(
            name=fields["name"],
            operands=fields["operands"],
            calls=fields.get("calls", fields["name"]),
            dtypes=fields["dtypes"],
            takes_numbers=bool(fields.get("numbers", False)),
            summary=fields["summary"],
            example=fields["example"],
            result=str(fields["result"]),
        )

    @property
    def is_composed(self) -> bool:
        """Whether a function of `array_api` computes it, not an operator alone."""
        return "." in self.calls


def _docstring(function: ElementwiseFunction) -> str:
    article = "an" if function.dtypes.startswith("i") else "a"
    dtype_phrase = "any" if function.dtypes == "all" else f"{article} {function.dtypes}"
    if function.operands == 1:
        arguments = f"        x: An array of {dtype_phrase} dtype.\n"
        returns = "An array of `x`'s shape."
    else:
        arguments = (
            f"        x1: An array of {dtype_phrase} dtype, or a Python number.\n"
            "        x2: Another one; one of the two is an array, and their shapes broadcast.\n"
        )
        returns = "An array of the broadcast shape."
    return (
        f'    """{function.summary}\n\n    Args:\n{arguments}\n    Returns:\n        {returns}\n\n'
        f"    Source: {STANDARD}.{function.name}.html\n\n    Example:\n        >>> import triten.array_api as xp\n"
        f"        >>> {function.example}\n        {function.result}\n"
        '    """\n'
    )


def _callee(function: ElementwiseFunction) -> str:
    return function.calls if function.is_composed else f"functions.{function.calls}"


def function_text(function: ElementwiseFunction) -> str:
    """Return the definition of a function."""
    docstring = _docstring(function)
    if function.operands == 1:
        return f"def {function.name}(x: Tensor, /) -> Tensor:\n{docstring}    return {_callee(function)}(x)\n"
    head = f"def {function.name}(x1: Tensor | Number, x2: Tensor | Number, /) -> Tensor:\n{docstring}"
    path = "promoted" if function.takes_numbers else "promoted_tensors"
    if function.is_composed:
        return f"{head}    return {path}({_callee(function)}, x1, x2)\n"
    # A Python number is told by its class: an exception for its missing spec would cost as much as the sum.
    numbers = "    cls = x2.__class__\n    if cls is float or cls is int:\n" if function.takes_numbers else ""
    if numbers:
        numbers += f"        return {path}({_callee(function)}, x1, x2)\n"
    return (
        f"{head}{numbers}"
        "    try:\n"
        "        first, second = x1._spec, x2._spec\n"
        f"        plan = {function.calls}_plans[first][second] if first.dtype is second.dtype and not modes else None\n"
        "    except (AttributeError, KeyError):\n"
        "        plan = None\n"
        f"    return {path}({_callee(function)}, x1, x2) if plan is None else plan(x1, x2)\n"
    )


def module_text(rows: list[ElementwiseFunction]) -> str:
    """Return the module's text before formatting."""
    planned = [f"{row.calls}_plans" for row in rows if row.operands == 2 and not row.is_composed]
    modules = sorted({row.calls.partition(".")[0] for row in rows if row.is_composed})
    names = "".join(f'    "{row.name}",\n' for row in sorted(rows, key=lambda row: row.name))
    return (
        '"""Elementwise functions of the Python array API standard.\n\n'
        "Generated by `python -m triten.dispatch.codegen.array_api` from `elementwise_functions.yaml`; edit that, not "
        'this.\n"""\n\n'
        "from __future__ import annotations\n\n"
        "from typing import TYPE_CHECKING\n\n"
        "from ..dispatch.generated import functions\n"
        f"from ..dispatch.generated.functions.pointwise import {', '.join(planned)}\n"
        "from ..runtime.local_dispatch_key_set import modes\n"
        f"from . import {', '.join(modules)}\n"
        "from .promotion import promoted, promoted_tensors\n\n"
        "if TYPE_CHECKING:\n"
        "    from ..dispatch.tensor import Tensor\n"
        "    from ..runtime.scalar_type import Number\n\n"
        f"__all__ = [\n{names}]\n\n\n" + "\n\n".join(function_text(row) for row in rows)
    )


def load_rows(path: Path = ROWS) -> list[ElementwiseFunction]:
    """Read the rows of the table. Raises ModelError for an invalid row or a duplicate name."""
    rows: list[ElementwiseFunction] = []
    for fields, location in read_entries(path):
        row = ElementwiseFunction.from_fields(fields, location)
        if any(row.name == other.name for other in rows):
            raise ModelError(f"{location}: {row.name} stands there twice")
        rows.append(row)
    return rows


def formatted(text: str) -> str:
    """Return the module's text, formatted with ruff."""
    for arguments in (["check", "--select", "I", "--fix", "--quiet", "--exit-zero"], ["format", "--quiet"]):
        command = [sys.executable, "-m", "ruff", *arguments, "--stdin-filename", str(MODULE), "-"]
        command += ["--config", str(FOLDER.parents[1] / "pyproject.toml")]
        text = subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout
    return text


def main() -> int:
    """Write or check; the exit status says whether the file was stale."""
    parser = argparse.ArgumentParser(prog="python -m triten.dispatch.codegen.array_api", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if the file is stale"
    )
    check = parser.parse_args().check
    text = formatted(module_text(load_rows()))
    stale = not MODULE.exists() or MODULE.read_text() != text
    if check:
        print(f"stale: {MODULE}" if stale else f"{MODULE.name} is fresh")
        return int(stale)
    if stale:
        MODULE.write_text(text)
    print(f"wrote {MODULE}" if stale else f"{MODULE.name} is fresh")
    return 0


if __name__ == "__main__":
    sys.exit(main())
