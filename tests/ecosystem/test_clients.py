"""Other libraries accept tensors instead of arrays; the results match the documentation."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from triten.tests.ecosystem.client import Client
from triten.tests.ecosystem.clients import CLIENTS
from triten.tests.ecosystem.findings import findings
from triten.tests.ecosystem.table import rows

TABLE = Path(__file__).resolve().parents[2] / "docs" / "clients_table.md"


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_calls_take_tensors_and_give_what_the_table_says(client: Client) -> None:
    for module in client.modules:
        if not _is_installed(module):
            pytest.skip(f"{module} is not installed")
    found = findings(client)
    expected = {call.text: call for call in client.calls}
    for device, several in found.items():
        assert not [(device, each.text, each.wrong) for each in several if each.wrong]
        for each in several:
            call = expected[each.text]
            assert (device, each.text, each.gives, each.shares) == (
                device,
                call.text,
                call.gives,
                call.shares,
            )
    written = "".join(
        f"{line}\n" for line in TABLE.read_text().splitlines() if line.startswith(f"| {client.name} |")
    )
    assert written == rows(client, found), "python -P -m triten.tests.ecosystem.table writes it"
