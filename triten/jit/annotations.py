"""Types in signatures that TorchScript reads (`torch.jit.annotations`)."""

from __future__ import annotations

# Programs import these from here.
from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: F401, UP035

__all__ = [f"BroadcastingList{number}" for number in range(1, 7)]


class _BroadcastingList:
    """A list of so many elements, or one element for all: ``BroadcastingList2[int]``."""

    def __getitem__(self, types: Any) -> Any:
        return list[types]


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()
BroadcastingList4 = BroadcastingList5 = BroadcastingList6 = BroadcastingList1
