"""`tt.save`. The writer is imported at the first call."""

from __future__ import annotations

import pickle
from types import ModuleType

from ..runtime.traceback_filter import api_boundary
from .loading import File

DEFAULT_PROTOCOL = 2
"""Protocol of pickles that PyTorch reads."""


@api_boundary
def save(
    obj: object,
    f: File,
    pickle_module: ModuleType = pickle,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Save an object with its tensors to a file that `load` and PyTorch can read (`torch.save`).

    Tensors that share memory share it after loading. Prefer saving a module's `state_dict`: a module itself is
    pickled by the names of its classes.

    An existing file at a path is replaced once the new one is complete and on the disk. A save that is killed, or
    that meets a full disk, leaves the old file as it was. The disk needs room for both. File objects, and paths that
    are not regular files, such as a pipe or ``/dev/stdout``, are written directly.

    Args:
        obj: The object to write: tensors, and containers and objects that hold them.
        f: A path, or a binary file open for writing.
        pickle_module: A module with a class `Pickler` that extends Python's, such as `dill`. Default: `pickle`.
        pickle_protocol: The protocol of the pickle; PyTorch loads 2.
        _use_new_zipfile_serialization: If False, write the format before PyTorch 1.6 instead of a zip archive.

    Raises:
        RuntimeError: The path is in a folder that is not there.
        AttributeError: `f` is neither a path nor a file.
        TypeError: `pickle_module` has no class `Pickler`.

    Example:
        >>> import io, triten as tt
        >>> file = io.BytesIO()
        >>> tt.save({"weight": tt.ones(2)}, file)
        >>> tt.load(io.BytesIO(file.getvalue()))
        {'weight': tensor([1., 1.])}
    """
    if not isinstance(getattr(pickle_module, "Pickler", None), type):
        raise TypeError(
            f"save: argument 'pickle_module' must have a class Pickler, got {pickle_module!r:.100}"
        )
    from .pickler import write

    write(
        obj,
        f,
        pickle_protocol,
        not _disable_byteorder_record,
        not _use_new_zipfile_serialization,
        pickle_module,
    )
