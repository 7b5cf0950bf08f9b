"""Reading and writing of safetensors files, which hold no code (`safetensors.torch`): `triten[safetensors]`.

The package ``safetensors`` reads and checks headers, and writes files. On the CPU a tensor is a memory map of the file:
its bytes are read at first access. A damaged file raises the package's exceptions, above all `SafetensorError`.

- `dtypes`: the format's dtype names.
- `opening`: reading files.
- `saving`: writing files.
- `models`: modules, whose parameters may share memory.

`triten.export` must work without the package, so it has its own reader (`compiler/export/safetensors.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..runtime.lazy_import import lazy_names

if TYPE_CHECKING:
    from safetensors import SafetensorError as SafetensorError

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
else:
    _find, __dir__, __all__ = lazy_names(
        __name__,
        {
            "safetensors": "SafetensorError",
            ".models": "load_model save_model",
            ".opening": "SafeSlice load load_file safe_open",
            ".saving": "save save_file",
        },
    )

    def __getattr__(name: str) -> Any:
        # `dtypes`, which checkpoints use, needs no package.
        try:
            return _find(name)
        except ModuleNotFoundError as error:
            if error.name != "safetensors":
                raise
            raise ModuleNotFoundError(
                "triten.safetensors needs the package safetensors: pip install 'triten[safetensors]'",
                name="safetensors",
            ) from error
