"""How samples become batches, with the table that programs add their classes to."""

import re

from ..collate import FOUND as default_collate_err_msg_format
from ..collate import (
    collate,
    collate_float_fn,
    collate_int_fn,
    collate_numpy_array_fn,
    collate_str_fn,
    collate_tensor_fn,
    default_collate,
    default_collate_fn_map,
    default_convert,
)

__all__ = [
    "collate",
    "collate_float_fn",
    "collate_int_fn",
    "collate_numpy_array_fn",
    "collate_numpy_scalar_fn",
    "collate_str_fn",
    "collate_tensor_fn",
    "default_collate",
    "default_collate_err_msg_format",
    "default_collate_fn_map",
    "default_convert",
    "np_str_obj_array_pattern",
]

collate_numpy_scalar_fn = collate_numpy_array_fn
np_str_obj_array_pattern = re.compile("[SaUO]")
"""Kinds of NumPy's dtypes whose arrays are not collated."""
