"""Logs for TensorBoard (`torch.utils.tensorboard`); requires the package ``tensorboard``.

`writer.py` writes the files, `summary.py` makes what stands in them, `images.py` turns tensors and figures into
pictures, `projector.py` writes embeddings. Graphs of models are not drawn.
"""

from __future__ import annotations

import re

try:
    import tensorboard
    from tensorboard.summary.writer.record_writer import RecordWriter
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] != "tensorboard":
        raise
    raise ModuleNotFoundError(
        f"{__name__} writes through the package tensorboard, which is not installed: pip install tensorboard",
        name=error.name,
    ) from error

_version = re.match(r"(\d+)\.(\d+)", getattr(tensorboard, "__version__", "0.0"))
if _version is None or tuple(map(int, _version.groups())) < (1, 15):
    raise ImportError("TensorBoard logging requires TensorBoard version 1.15 or above")

from .writer import FileWriter, SummaryWriter  # noqa: E402 - what it imports is there now

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]
