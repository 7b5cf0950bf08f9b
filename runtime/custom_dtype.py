"""Custom scalar types, registered at run time."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np

from . import scalar_type as st
from .fork_lock import forkable
from .scalar_type import dtype as ScalarType

_FIRST_INDEX = 64
"""PyTorch's own numbers end below this one."""

_lock = forkable(threading.Lock())


def register_dtype(
    name: str,
    numpy_dtype: Any,
    *,
    scalar_name: str | None = None,
    promotes: Mapping[ScalarType, ScalarType] | None = None,
    computes_in: ScalarType | None = None,
) -> ScalarType:
    """Register a NumPy dtype, such as one of ml_dtypes', as ``tt.<name>``.

    Its tensors can be created, filled, converted through NumPy's casts, printed, viewed, indexed, concatenated and
    compared (``==``, ``!=``, `where`). The other operators refuse it, as PyTorch's do its float8. With
    ``computes_in=tt.float32`` the CPU computes all of them, in float32 and rounded. A dtype lives as long as the
    process. CUDA kernels have no type for it: its tensors can only be stored and moved there.

    Args:
        name: The dtype's name, an identifier.
        numpy_dtype: A floating or integral NumPy dtype that tensors do not have yet.
        scalar_name: Its name in messages. Default: None, `name` with a capital.
        promotes: Result dtype for each other dtype; all other pairs do not promote. Default: None.
        computes_in: `tt.float32`, for floating dtypes only. Default: None.

    Returns:
        The dtype.

    Raises:
        TypeError: For any other kind of NumPy dtype, and for promotions that are no dtypes.
        RuntimeError: For a name or a NumPy dtype that is taken, and for another `computes_in`.

    Example:
        >>> import ml_dtypes
        >>> import triten as tt
        >>> d = tt.library.register_dtype(
        ...     "float8_e3m4", ml_dtypes.float8_e3m4, promotes={tt.float32: tt.float32}, computes_in=tt.float32
        ... )
        >>> tt.tensor([1.0, 2.75], dtype=d) * 2
        tensor([2.0000, 5.5000], dtype=triten.float8_e3m4)
        >>> tt.promote_types(d, tt.float32)
        triten.float32
    """
    np_type = _numpy_dtype(numpy_dtype)
    kind = _kind_of(np_type)
    scalar_name = name[:1].upper() + name[1:] if scalar_name is None else scalar_name
    promotes = {} if promotes is None else dict(promotes)
    for other in (*promotes, *promotes.values()):
        if not isinstance(other, ScalarType):
            raise TypeError(f"register_dtype(): argument 'promotes' must map dtype to dtype, got {other!r}")
    if computes_in is not None and not (computes_in is st.float32 and kind == "f"):
        raise RuntimeError(
            f"register_dtype(): {name} can compute in triten.float32, where it is floating, not in {computes_in}"
        )
    with _lock:
        # The module for pickled dtypes, and the package's root.
        namespaces = [sys.modules[each] for each in (st.__name__, st.__name__.partition(".runtime.")[0])]
        if (
            not name.isidentifier()
            or name in st.BY_NAME
            or any(hasattr(module, name) for module in namespaces)
        ):
            raise RuntimeError(
                f"register_dtype(): the name must be an identifier that is not taken, got {name!r}"
            )
        if any(d.scalar_name == scalar_name for d in (*st.ALL, *st.registered)):
            raise RuntimeError(f"register_dtype(): a dtype is called {scalar_name} already")
        if np_type in st._BY_NUMPY:
            raise RuntimeError(f"register_dtype(): {np_type} is {st._BY_NUMPY[np_type]} already")
        made = ScalarType(_FIRST_INDEX + len(st.registered), name, scalar_name, np_type, kind, None)
        st.registered[made] = computes_in
        if computes_in is None:
            st.only_stored.add(made)
        for registered in st.on_register:
            registered(made, promotes)
        # Register the name last, when every table has the dtype.
        st._BY_NUMPY[np_type] = st.BY_NAME[name] = made
        for module in namespaces:
            setattr(module, name, made)
    return made


def _numpy_dtype(dtype: Any) -> Any:
    try:
        return np.dtype(dtype)
    except TypeError:
        raise TypeError(
            f"register_dtype(): argument 'numpy_dtype' must be a NumPy dtype, got {dtype!r}"
        ) from None


def _kind_of(np_type: Any) -> str:
    """Return ``f``, ``i`` or ``u``. Raise TypeError for a dtype that is neither floating nor integral."""
    if np_type.names is None and np_type.isnative and np_type.kind in "fiuV" and np_type.itemsize <= 8:
        for limits, kind in ((ml_dtypes.finfo, "f"), (ml_dtypes.iinfo, "i")):
            try:
                least = limits(np_type).min
            except ValueError:
                continue
            return "u" if kind == "i" and least == 0 else kind
    raise TypeError(f"register_dtype(): {np_type} is no floating or integral dtype of at most 64 bits")
