"""Samples made into batches, under PyTorch's name for the place."""

import re

from rushlight.utils.data.collate import _collate_floats as collate_float_fn
from rushlight.utils.data.collate import _collate_numbers as collate_int_fn
from rushlight.utils.data.collate import _collate_numpy as collate_numpy_array_fn
from rushlight.utils.data.collate import _collate_tensors as collate_tensor_fn
from rushlight.utils.data.collate import _collate_text as collate_str_fn
from rushlight.utils.data.collate import (
    collate,
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
    "default_collate_fn_map",
    "default_convert",
]

collate_numpy_scalar_fn = collate_numpy_array_fn
# NumPy's types of text, bytes and objects, which are not made tensors.
np_str_obj_array_pattern = re.compile("[SaUO]")
default_collate_err_msg_format = (
    "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or "
    "lists; found {}"
)
