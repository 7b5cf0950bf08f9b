"""`tt.save` and `tt.load`: objects with tensors in PyTorch's file format (`torch.serialization`).

A file is a zip archive of a pickle and of the storages' bytes. Tensors, parameters, dtypes and devices have PyTorch's
names in it, so that each library reads the other's files without the other installed.

By default a file to be loaded is untrusted. The modules of reading:

- `reading` opens the file; `archive` and `legacy` find the storages' bytes.
- `restricted_unpickler` runs the pickle with the names of `allowed_globals`.
- `rebuild` makes tensors from checked arguments; `placement` puts storages on devices, by the registry of `locations`.
- `limits` bounds the work and memory.
- `file_reader` reads single records.

`pickler` writes, and `replacing_file` keeps an old file until the new one is complete. `settings` has the defaults of
both directions. No other module reads or writes these files. `dispatch.methods.pickling` pickles tensors elsewhere.
"""

from .changed_source import SourceChangeWarning as SourceChangeWarning
from .file_reader import PyTorchFileReader as PyTorchFileReader
from .loading import get_unsafe_globals_in_checkpoint as get_unsafe_globals_in_checkpoint
from .loading import load as load
from .locations import default_restore_location as default_restore_location
from .locations import location_tag as location_tag
from .locations import register_package as register_package
from .locations import validate_cuda_device as validate_cuda_device
from .saving import save as save
from .settings import LoadEndianness as LoadEndianness
from .settings import get_crc32_options as get_crc32_options
from .settings import get_default_load_endianness as get_default_load_endianness
from .settings import get_default_mmap_options as get_default_mmap_options
from .settings import set_crc32_options as set_crc32_options
from .settings import set_default_load_endianness as set_default_load_endianness
from .settings import set_default_mmap_options as set_default_mmap_options
from .settings import skip_data as skip_data
from .user_globals import add_safe_globals as add_safe_globals
from .user_globals import clear_safe_globals as clear_safe_globals
from .user_globals import get_safe_globals as get_safe_globals
from .user_globals import safe_globals as safe_globals

__all__ = [
    "LoadEndianness",
    "PyTorchFileReader",
    "SourceChangeWarning",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_crc32_options",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "register_package",
    "safe_globals",
    "save",
    "set_crc32_options",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
    "validate_cuda_device",
]
