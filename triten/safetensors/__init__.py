"""Tensors in files of the safetensors format, which hold no code (`safetensors.torch`): `triten[safetensors]`.

The package ``safetensors`` reads and checks headers, and writes files; the elements are this library's own: on the CPU
they are the file itself, mapped to memory, and read when they are needed. Its exceptions, `SafetensorError` above all,
are what a damaged file raises.

`dtypes` has the names of dtypes, `opening` files that are read, `saving` files that are written, `models` modules whose
parameters share memory. `triten.export`, which must work without the package, has a reader of its own
(`compiler/export/safetensors.py`).
"""

try:
    from safetensors import SafetensorError as SafetensorError
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "triten.safetensors needs the package safetensors: pip install 'triten[safetensors]'",
        name="safetensors",
    ) from error

from .models import load_model as load_model
from .models import save_model as save_model
from .opening import SafeSlice as SafeSlice
from .opening import load as load
from .opening import load_file as load_file
from .opening import safe_open as safe_open
from .saving import save as save
from .saving import save_file as save_file

__all__ = [
    "SafeSlice",
    "SafetensorError",
    "load",
    "load_file",
    "load_model",
    "safe_open",
    "save",
    "save_file",
    "save_model",
]
