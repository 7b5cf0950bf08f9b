"""Operator coverage report from the registry: `python -m triten.dispatch.coverage`.

A row is an overload, with a column for its in-place and ``out=`` forms. A cell names the implementation:

- `kernel`: NumPy or a library on the CPU, a Triton program or a library on CUDA,
- `view`,
- `explicit`: a composite of operators below autograd,
- `composite`: a composite above autograd, which needs no derivative or rule of its own,
- empty for none.

After `composite`, `host kernel` marks a kernel for plain calls on the CPU (`plans/host_kernel.py`). `--core` selects
PyTorch's Core ATen set (`core_aten.txt`) and names its missing operators; if any is missing, the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from ..runtime.dispatch_key import BY_NAME, DispatchKey
from .autograd.forward_mode import find_formula
from .core.dispatcher import Dispatcher
from .core.operator_entry import AUTOGRAD, EXPLICIT, IMPLICIT, OperatorEntry
from .layers.batching.table import REFUSED, RULES
from .plans.host_kernel import HostPlanner
from .plans.register import stub_of
from .plans.view_kernel import ViewKernel
from .schema.parser import parse_schema
from .structured.stub import load_kernels, stub_names

DEVICES = ("CPU", "Meta", "CUDA")
COLUMNS = ("operator", *DEVICES, "derivative", "batching", "forms")
CORE = Path(__file__).with_name("core_aten.txt")
FORMATS = ("text", "markdown", "json")


@dataclass(frozen=True)
class Row:
    """Coverage of an operator; an empty cell means no coverage.

    It has these attributes:

    - `operator`: Name and overload, without ``aten::``.
    - `cpu`, `meta`, `cuda`: The implementation on the backend.
    - `derivative`: `reverse`, `reverse, forward` (a formula for tangents; without one, reverse mode runs twice),
      `composite`, or `none needed` if no argument is differentiable.
    - `batching`: `rule`, `pointwise` (one rule for all of them), `composite`, `loop` (example by example), `refused`.
    - `forms`: The in-place and ``out=`` forms.
    - `core`: True for an operator of Core ATen.
    """

    operator: str
    cpu: str
    meta: str
    cuda: str
    derivative: str
    batching: str
    forms: str
    core: bool

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the row, in the order of `COLUMNS`."""
        return (self.operator, self.cpu, self.meta, self.cuda, self.derivative, self.batching, self.forms)

    @property
    def is_whole(self) -> bool:
        """True if it runs on every backend and has a derivative or needs none."""
        return all((self.cpu, self.meta, self.cuda, self.derivative))


def core_schemas() -> dict[str, str]:
    """Return the schemas of Core ATen by operator and overload, as PyTorch states them."""
    lines = CORE.read_text().split("\n")
    return {line.partition("(")[0].removeprefix("aten::"): line for line in lines if line}


def missing_of_core() -> list[str]:
    """Return the operators of Core ATen that the registry lacks or has with another schema."""
    dispatcher = Dispatcher.singleton()
    out = []
    for operator, schema in core_schemas().items():
        entry = dispatcher.find_schema("aten::" + operator.partition(".")[0], operator.partition(".")[2])
        if entry is None:
            out.append(operator)
        elif str(entry.schema) != str(parse_schema(schema)):
            out.append(f"{operator}, which is declared as {entry.schema}")
    return out


def rows(core: bool = False) -> list[Row]:
    """Return the table, sorted by operator; with `core`, only Core ATen.

    Example:
        >>> from triten.dispatch.coverage import rows
        >>> [row.cells() for row in rows() if row.operator == "relu"]
        [('relu', 'kernel', 'kernel', 'kernel', 'reverse, forward', 'pointwise', 'relu_, relu.out')]
    """
    for device in DEVICES:
        load_kernels(device.lower())
    served = {device: frozenset(stub_names(device.lower())) for device in DEVICES}
    core_names = core_schemas()
    entries = [entry for entry in _entries() if entry.schema.kind == "functional"]
    forms = _forms(entries)
    out = []
    for entry in entries:
        operator = entry.name.removeprefix("aten::")
        if core and operator not in core_names:
            continue
        cpu, meta, cuda = (_served(entry, BY_NAME[device], served[device]) for device in DEVICES)
        out.append(
            Row(
                operator,
                cpu,
                meta,
                cuda,
                _derivative(entry),
                _batching(entry),
                ", ".join(forms.get(entry.name, ())),
                operator in core_names,
            )
        )
    return sorted(out, key=lambda row: row.operator)


def _entries() -> Iterator[OperatorEntry]:
    """Yield the operators of the namespace that have a schema."""
    dispatcher = Dispatcher.singleton()
    for name in dispatcher.get_all_op_names():
        entry = dispatcher.find_schema(*name.partition(".")[::2])
        if entry is not None and name.startswith("aten::"):
            yield entry


def _forms(functional: Sequence[OperatorEntry]) -> dict[str, list[str]]:
    """Return the in-place and ``out=`` forms by the functional operator with the same arguments."""
    by_inputs: dict[tuple[str, tuple[tuple[str, str], ...]], OperatorEntry] = {}
    for entry in functional:
        base = entry.name.partition(".")[0]
        arguments = entry.schema.arguments
        by_inputs[base, tuple((a.name, str(a.type)) for a in arguments)] = entry
    out: dict[str, list[str]] = {}
    for entry in sorted(_entries(), key=lambda entry: (entry.schema.kind == "out", entry.name)):
        if entry.schema.kind == "functional":
            continue
        base = entry.name.partition(".")[0]
        inputs = tuple((a.name, str(a.type)) for a in entry.schema.arguments if not a.is_out)
        twin = by_inputs.get((base, inputs)) or by_inputs.get((base.removesuffix("_"), inputs))
        if twin is not None:
            out.setdefault(twin.name, []).append(entry.name.removeprefix("aten::"))
    return out


def _served(entry: OperatorEntry, key: DispatchKey, stubs: Iterable[str]) -> str:
    origin = entry.origin_of(key, entry.kernels)
    if origin is None:
        return ""
    kernel = entry.kernels[origin][-1]
    stub = stub_of(entry.name, kernel)
    if stub is not None:
        # Meta needs only the meta function.
        return "kernel" if key is BY_NAME["Meta"] or stub in stubs else ""
    if isinstance(kernel.planner, ViewKernel):
        return "view"
    if origin is not IMPLICIT and origin is not EXPLICIT:
        return "kernel"
    composite = "composite" if origin is IMPLICIT else "explicit"
    is_served = isinstance(kernel.planner, HostPlanner) and kernel.planner.stub in stubs
    return f"{composite}, host kernel" if is_served else composite


def _derivative(entry: OperatorEntry) -> str:
    kernels = entry.kernels
    if AUTOGRAD in kernels:
        return "reverse" if find_formula(entry.name) is None else "reverse, forward"
    if IMPLICIT in kernels:
        return "composite"
    schema = entry.schema
    tensors = any("Tensor" in str(argument.type) for argument in schema.arguments)
    made = any("Tensor" in str(result.type) for result in schema.returns)
    return "" if tensors and made and "nondifferentiable" not in entry.tags else "none needed"


def _batching(entry: OperatorEntry) -> str:
    if entry.name in REFUSED:
        return "refused"
    if entry.name in RULES:
        return "rule"
    if IMPLICIT in entry.kernels:
        return "composite"
    if "pointwise" in entry.tags:
        return "pointwise"
    aliases = any(r.alias_info is not None and not r.alias_info.is_write for r in entry.schema.returns)
    return "refused" if aliases else "loop"


def summary(table: Sequence[Row]) -> str:
    """Return the total line of a table."""
    counts = {device: sum(bool(getattr(row, device.lower())) for row in table) for device in DEVICES}
    core = core_schemas()
    have = len(core) - len(missing_of_core())
    per_device = ", ".join(f"{device} {count}" for device, count in counts.items())
    differentiable = sum(bool(row.derivative) for row in table)
    ruled = sum(row.batching not in ("loop", "refused", "") for row in table)
    return (
        f"{len(table)} operators: {per_device}, derivative {differentiable}, batching rule {ruled}; "
        f"Core ATen {have} of {len(core)}"
    )


INTRODUCTION = """# Operators

`python -m triten.dispatch.coverage --format markdown` writes this (`make coverage`); its docstring says what the cells
mean.

{summary}.

"""


def as_markdown(table: Sequence[Row]) -> str:
    """Return the table with its total line as Markdown."""
    lines = [
        " | ".join(COLUMNS),
        "|".join("---" for _ in COLUMNS),
        *(" | ".join(row.cells()) for row in table),
    ]
    body = "\n".join(f"|{line}|" if "---" in line else f"| {line} |" for line in lines)
    return INTRODUCTION.format(summary=summary(table)) + body + "\n"


def as_json(table: Sequence[Row]) -> str:
    """Return the rows, the total line and the gaps in Core ATen as JSON."""
    return json.dumps(
        {
            "summary": summary(table),
            "missing": missing_of_core(),
            "operators": [asdict(row) for row in table],
        },
        indent=1,
    )


def as_text(table: Sequence[Row]) -> str:
    """Return the table as plain text columns."""
    cells = [COLUMNS, *(row.cells() for row in table)]
    widest = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = ["  ".join(c.ljust(n) for c, n in zip(line, widest, strict=True)).rstrip() for line in cells]
    return "\n".join([*lines, "", summary(table)])


def print_on_terminal(table: Sequence[Row]) -> None:
    """Print the table with `rich`."""
    from rich.console import Console
    from rich.table import Table

    shown = Table(*COLUMNS)
    for row in table:
        shown.add_row(*row.cells(), style=None if row.is_whole else "red")
    console = Console()
    console.print(shown)
    console.print(summary(table))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; return 1 if `--core` is given and operators are missing."""
    parser = argparse.ArgumentParser(prog="python -m triten.dispatch.coverage", description=__doc__)
    parser.add_argument("--core", action="store_true", help="PyTorch's Core ATen set alone")
    parser.add_argument("--format", choices=FORMATS, default="text")
    options = parser.parse_args(arguments)
    table = rows(options.core)
    if options.format == "text" and sys.stdout.isatty() and find_spec("rich"):
        print_on_terminal(table)
        return _status(table, options.core)
    write = {"text": as_text, "markdown": as_markdown, "json": as_json}[options.format]
    sys.stdout.write(write(table).rstrip("\n") + "\n")
    return _status(table, options.core)


def _status(table: Sequence[Row], core: bool) -> int:
    """Return the exit status, after printing missing operators to standard error."""
    if not core:
        return 0
    absent = missing_of_core()
    for operator in absent:
        print(f"missing: {operator}", file=sys.stderr)
    partial = [row.operator for row in table if not row.is_whole]
    for operator in partial:
        print(f"not on every backend, or without derivative: {operator}", file=sys.stderr)
    return 1 if absent or partial else 0


if __name__ == "__main__":
    sys.exit(main())
