"""Settings of how conversions of modules treat parameters; `tt.__future__` is their public place."""

from __future__ import annotations

__all__ = [
    "get_overwrite_module_params_on_conversion",
    "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion",
    "set_swap_module_params_on_conversion",
]

_overwrites: bool = False
_swaps: bool = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Set whether conversions of a module (`Module.to`, `Module.double`, ...) give it new parameters.

    Args:
        value: If True, the module gets new `Parameter` objects. If False, which is the initial setting, the existing
            parameters get new data, so that optimizers and other holders see the conversion.

    Example:
        >>> import triten as tt
        >>> tt.__future__.set_overwrite_module_params_on_conversion(True)
        >>> m = tt.nn.Linear(2, 2); before = m.weight
        >>> m.double().weight is before, before.dtype
        (False, triten.float32)
        >>> tt.__future__.set_overwrite_module_params_on_conversion(False)
    """
    global _overwrites
    _overwrites = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Return the setting of `set_overwrite_module_params_on_conversion`."""
    return _overwrites


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Set whether conversions of a module and `Module.load_state_dict` exchange contents by `tt.utils.swap_tensors`.

    This setting takes precedence over `set_overwrite_module_params_on_conversion`.

    Args:
        value: If True, a parameter stays the same object, and its content is exchanged with that of the converted or
            loaded one. `load_state_dict` takes the latter from `Tensor.module_load`. The initial setting is False.

    Example:
        >>> import triten as tt
        >>> tt.__future__.set_swap_module_params_on_conversion(True)
        >>> m = tt.nn.Linear(2, 2); before = m.weight
        >>> m.double().weight is before, before.dtype
        (True, triten.float64)
        >>> tt.__future__.set_swap_module_params_on_conversion(False)
    """
    global _swaps
    _swaps = value


def get_swap_module_params_on_conversion() -> bool:
    """Return the setting of `set_swap_module_params_on_conversion`."""
    return _swaps
