"""Description of the measured configurations that a process uses, for files of results."""

from __future__ import annotations

import hashlib
from typing import Any

from ...runtime.cuda.driver import driver
from ..budget import DECLARATIONS
from .records import device_name, records
from .table import read_table, table_path


def tuning_in_force(index: int) -> dict[str, Any]:
    """Describe the shipped table of a device and the records of this machine.

    An entry is valid if launches use it: its kernel has the code that was measured, and the configuration is the
    launcher's default or still declared.

    Args:
        index: A CUDA device.

    Returns:
        ``table``, the name of the file; ``sha256``, the hash of its contents, or None without a file;
        ``entries`` and ``valid``, the numbers of its entries; ``recorded``, the number of valid records of the
        kernels that are loaded, which take precedence over the table.
    """
    properties = driver().properties(index)
    path, store = table_path(properties.capability), records()
    entries = read_table(path)
    recorded = (
        []
        if store is None
        else [each for kernel in list(DECLARATIONS) for each in store.read(device_name(properties), kernel)]
    )
    valid, others = (
        sum(each.is_in_force(properties.capability) for each in some) for some in (entries, recorded)
    )
    return {
        "table": path.name,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else None,
        "entries": len(entries),
        "valid": valid,
        "recorded": others,
    }
