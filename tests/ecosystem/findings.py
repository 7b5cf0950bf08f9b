"""What a client's calls give, found in a process of its own."""

from __future__ import annotations

import json
import os

from triten.tests.shared.processes import run_python

from .client import Client, Finding

__all__ = ["findings"]


def findings(client: Client, device: str) -> list[Finding]:
    """One for each of the client's calls that are made on this device. Raises RuntimeError where the process fails."""
    call = f"main({client.name!r}, {device!r})"
    program = f"import json; from {__package__}.run_client import main; print(json.dumps({call}))"
    simulated = {"TRITEN_CUDA": "interpret", "TRITON_INTERPRET": "1"}
    run = run_python(program, environment=os.environ | simulated | client.environment)
    if run.returncode:
        raise RuntimeError(f"{client.name} on {device}: {run.stderr[-3000:]}")
    return [Finding(*found) for found in json.loads(run.stdout.splitlines()[-1])]
