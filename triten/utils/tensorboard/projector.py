"""Embeddings for TensorBoard's projector: tables of vectors and labels in files beside the log."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tensorboard.plugins.projector.projector_config_pb2 import EmbeddingInfo

from .images import Array, as_bytes, encoded, make_grid, make_np


def write_embedding(
    folder: Path,
    name: str,
    vectors: Array,
    metadata: Sequence[Any] | None,
    pictures: Any,
    header: Sequence[str] | None,
    subfolder: str,
) -> Any:
    """Write vectors with their labels and pictures, and give the entry that names the files.

    Raises AssertionError for labels or pictures of another number than the vectors, or vectors that make no matrix.
    """
    if vectors.ndim != 2:
        raise AssertionError("mat should be 2D, where mat.size(0) is the number of data points")
    info = EmbeddingInfo(tensor_name=name, tensor_path=os.path.join(subfolder, "tensors.tsv"))
    if metadata is not None:
        if len(metadata) != len(vectors):
            raise AssertionError("#labels should equal with #data points")
        if header and len(header) != len(metadata[0]):
            raise AssertionError("len of header must be equal to the number of columns in metadata")
        rows = [header, *metadata] if header else [[label] for label in metadata]
        (folder / "metadata.tsv").write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
        info.metadata_path = os.path.join(subfolder, "metadata.tsv")
    if pictures is not None:
        if pictures.shape[0] != len(vectors):
            raise AssertionError("#images should equal with #data points")
        grid = make_grid(make_np(pictures), ncols=math.ceil(len(vectors) ** 0.5)).transpose(1, 2, 0)
        square = np.zeros((grid.shape[1], grid.shape[1], 3))
        square[: grid.shape[0]] = grid
        (folder / "sprite.png").write_bytes(encoded(as_bytes(square)))
        info.sprite.image_path = os.path.join(subfolder, "sprite.png")
        info.sprite.single_image_dim.extend([pictures.shape[3], pictures.shape[2]])
    lines = ["\t".join(str(value.item()) for value in vector) for vector in vectors]
    (folder / "tensors.tsv").write_text("".join(f"{line}\n" for line in lines))
    return info
