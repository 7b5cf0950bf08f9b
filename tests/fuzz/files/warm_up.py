"""Imports that readers make on their first call: loading a library also starts processes and opens files."""

import tempfile
from contextlib import suppress
from pathlib import Path

import triten as tt
from triten.tests.fuzz.files.formats import FORMATS


def warm_up():
    """Read every sample once, and ask for each kind of device."""
    for device in ("cuda", "meta"):
        with suppress(RuntimeError):
            tt.empty(1, device=device)
    for form in FORMATS.values():
        for files in form.samples().values():
            with tempfile.TemporaryDirectory() as folder:
                for name, data in files.items():
                    (Path(folder) / name).write_bytes(data)
                form.read(Path(folder))
