"""The table of "With other libraries": ``python -P -m triten.tests.ecosystem.table > docs/clients_table.md``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .client import Client, Finding
from .clients import CLIENTS
from .findings import findings

__all__ = ["rows", "table"]

_HEADING = "| library | call | result | memory | with tensors on CUDA |\n|---|---|---|---|---|\n"
_RESULTS = {"tensor": "tensor", "array": "NumPy array", "other": "number or object"}


def rows(client: Client, found: Mapping[str, Sequence[Finding]]) -> str:
    """Return the table rows of one client."""
    cuda = {each.text: _RESULTS[each.gives] for each in found["cuda"]}
    return "".join(
        f"| {client.name} | `{each.text}` | {_RESULTS[each.gives]} | {'shared' if each.shares else 'new'} | "
        f"{cuda.get(each.text, 'to be copied to the CPU first')} |\n"
        for each in found["cpu"]
    )


def table() -> str:
    """Return the table of all clients, which must be installed."""
    return _HEADING + "".join(rows(client, findings(client)) for client in CLIENTS)


if __name__ == "__main__":
    print(table(), end="")
