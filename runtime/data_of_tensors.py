"""What `Tensor.data` gives while a layer follows what a thread's program does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class DataOfTensors(threading.local):
    """The function of a tensor that `data` asks first, in this thread; where that gives None, it is as always."""

    followed: Callable[[Any], Any] | None = None


data_of_tensors = DataOfTensors()
