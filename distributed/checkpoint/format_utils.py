"""Checkpoints as files of `tt.save`, and back (`torch.distributed.checkpoint.format_utils`)."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ... import serialization
from .coordination import Coordination
from .default_planner import DefaultSavePlanner
from .filesystem_writer import FileSystemWriter
from .state_dict_loader import _load_state_dict_from_keys
from .state_dict_saver import _save

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]

Path = str | os.PathLike[str]


def dcp_to_torch_save(dcp_checkpoint_dir: Path, torch_save_path: Path) -> None:
    """Write all that a checkpoint has to one file (`torch.distributed.checkpoint.format_utils.dcp_to_torch_save`).

    One process calls, whose memory takes all of it. The folder may be one that PyTorch wrote.

    Args:
        dcp_checkpoint_dir: the checkpoint's folder.
        torch_save_path: the file, which `tt.load` and PyTorch read.

    Raises:
        CheckpointException: it cannot be read.

    Example:
        >>> import os, tempfile, triten as tt
        >>> from triten.distributed import checkpoint
        >>> folder = tempfile.mkdtemp()
        >>> tt.save({"weight": tt.ones(2), "step": 3}, os.path.join(folder, "one.pt"))
        >>> checkpoint.format_utils.torch_save_to_dcp(os.path.join(folder, "one.pt"), os.path.join(folder, "many"))
        >>> checkpoint.format_utils.dcp_to_torch_save(os.path.join(folder, "many"), os.path.join(folder, "two.pt"))
        >>> tt.load(os.path.join(folder, "two.pt"))
        {'weight': tensor([1., 1.]), 'step': 3}
    """
    serialization.save(_load_state_dict_from_keys(checkpoint_id=dcp_checkpoint_dir), torch_save_path)


def torch_save_to_dcp(torch_save_path: Path, dcp_checkpoint_dir: Path) -> None:
    """Write a file of `tt.save`'s, or PyTorch's, as a checkpoint
    (`torch.distributed.checkpoint.format_utils.torch_save_to_dcp`).

    One process calls.

    Args:
        torch_save_path: the file, read as `tt.load` does by default.
        dcp_checkpoint_dir: the checkpoint's folder.

    Raises:
        TypeError: the file has no dict.
        CheckpointException: the checkpoint cannot be written.
    """
    state_dict = serialization.load(torch_save_path, map_location="cpu")
    if not isinstance(state_dict, Mapping):
        raise TypeError(
            f"torch_save_to_dcp: expected a dict in {os.fspath(torch_save_path)!r}, but got {type(state_dict).__name__}"
        )
    _save(
        dict(state_dict),
        FileSystemWriter(dcp_checkpoint_dir),
        DefaultSavePlanner(),
        Coordination(None, False),
    )
