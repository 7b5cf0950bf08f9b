"""The table of "With other libraries": ``python -P -m triten.tests.ecosystem.table > docs/clients_table.md``."""

from __future__ import annotations

from collections.abc import Sequence

from .client import Client, Finding
from .clients import CLIENTS
from .findings import findings

__all__ = ["rows", "table"]

_HEADING = "| library | call | result | memory | with tensors on CUDA |\n|---|---|---|---|---|\n"
_RESULTS = {"tensor": "tensor", "array": "NumPy array", "other": "number or object"}


def rows(client: Client, on_cpu: Sequence[Finding], on_cuda: Sequence[Finding]) -> str:
    """The lines of one client."""
    cuda = {found.text: _RESULTS[found.gives] for found in on_cuda}
    return "".join(
        f"| {client.name} | `{found.text}` | {_RESULTS[found.gives]} | {'shared' if found.shares else 'new'} | "
        f"{cuda.get(found.text, 'to be copied to the CPU first')} |\n"
        for found in on_cpu
    )


def table() -> str:
    """The lines of all clients, which have to be installed."""
    return _HEADING + "".join(
        rows(client, findings(client, "cpu"), findings(client, "cuda")) for client in CLIENTS
    )


if __name__ == "__main__":
    print(table(), end="")
