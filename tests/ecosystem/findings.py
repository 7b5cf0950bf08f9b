"""Results of a client's calls, computed in a separate process."""

from __future__ import annotations

import json
import os

from triten.tests.shared.processes import run_python

from .client import Client, Finding

__all__ = ["findings"]


def findings(client: Client) -> dict[str, list[Finding]]:
    """By device, one for each of the client's calls that are made there; RuntimeError where the process fails."""
    program = (
        f"import json; from {__package__}.run_client import main; print(json.dumps(main({client.name!r})))"
    )
    simulated = {"TRITEN_CUDA": "interpret", "TRITON_INTERPRET": "1"}
    run = run_python(program, environment=os.environ | simulated | client.environment)
    if run.returncode:
        raise RuntimeError(f"{client.name}: {run.stderr[-3000:]}")
    by_device = json.loads(run.stdout.splitlines()[-1])
    return {device: [Finding(*found) for found in several] for device, several in by_device.items()}
