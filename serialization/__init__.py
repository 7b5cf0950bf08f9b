"""`tt.save` and `tt.load`: objects with tensors in PyTorch's own files (`torch.serialization`).

A file is a zip archive of a pickle and of the storages' bytes. Tensors, parameters, dtypes and devices stand in it
under PyTorch's names, so that either library reads what the other wrote, neither being there.

A file to be loaded is taken for hostile, unless the caller says otherwise. `reading` opens it; `restricted_unpickler`
runs its pickle with the names of `allowed_globals`; `rebuild` makes tensors of checked arguments; `archive` and
`legacy` find the storages' bytes; `limits` bounds the work; `placement` puts storages on devices. `pickler` writes, and
`replacing_file` keeps an old file until the new one is whole; `file_reader` reads single records. No other module reads
or writes such files; how tensors are pickled elsewhere is in `dispatch.methods.pickling`.
"""

from .file_reader import PyTorchFileReader as PyTorchFileReader
from .loading import get_unsafe_globals_in_checkpoint as get_unsafe_globals_in_checkpoint
from .loading import load as load
from .saving import save as save
from .user_globals import add_safe_globals as add_safe_globals
from .user_globals import clear_safe_globals as clear_safe_globals
from .user_globals import get_safe_globals as get_safe_globals
from .user_globals import safe_globals as safe_globals

__all__ = [
    "PyTorchFileReader",
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "safe_globals",
    "save",
]
