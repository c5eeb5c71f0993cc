"""Types of elements in ONNX's numbers, and tensors in its messages."""

import numpy as np

import rushlight as rl
from rushlight.onnx.errors import OnnxExporterError

# By ONNX's number; what is missing has no type of elements here.
DTYPES = {
    1: rl.float32, 2: rl.uint8, 3: rl.int8, 4: rl.uint16, 5: rl.int16, 6: rl.int32,
    7: rl.int64, 9: rl.bool, 10: rl.float16, 11: rl.float64, 12: rl.uint32,
    13: rl.uint64, 14: rl.complex64, 15: rl.complex128, 16: rl.bfloat16,
    17: rl.float8_e4m3fn, 18: rl.float8_e4m3fnuz, 19: rl.float8_e5m2,
    20: rl.float8_e5m2fnuz,
}  # fmt: skip
NUMBERS = {dtype: number for number, dtype in DTYPES.items()}
_ARRAYS = {
    rl.float32: np.float32, rl.uint8: np.uint8, rl.int8: np.int8, rl.uint16: np.uint16,
    rl.int16: np.int16, rl.int32: np.int32, rl.int64: np.int64, rl.bool: np.bool_,
    rl.float16: np.float16, rl.float64: np.float64, rl.uint32: np.uint32,
    rl.uint64: np.uint64, rl.complex64: np.complex64, rl.complex128: np.complex128,
}  # fmt: skip


def number_of(dtype):
    """ONNX's number of a type of elements.

    Raises:
        OnnxExporterError: ONNX has none like it.
    """
    if dtype not in NUMBERS:
        raise OnnxExporterError(
            f"ONNX has no elements of type {dtype}\n"
            "  remedy: convert the tensor with .to(torch.float32) in the model"
        )
    return NUMBERS[dtype]


def dtype_of(number):
    """The type of elements that ONNX's number means; None for one that is not here."""
    return DTYPES.get(number)


def raw_bytes(tensor):
    """A tensor's elements as they lie in a file: rows one after another, little-endian."""
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    return tensor.reshape(-1).view(rl.uint8).numpy().tobytes()


def array_of(values, dtype):
    """Numbers as an array of a type; types that arrays lack as their bytes.

    Args:
        values: a number, a nest of lists, an array, or a tensor.
        dtype: the type of its elements.
    """
    kind = _ARRAYS.get(dtype)
    if isinstance(values, rl.Tensor):
        return values.to(dtype) if kind is None else values.numpy().astype(kind)
    if kind is None:
        return rl.tensor(np.asarray(values).tolist(), dtype=dtype)
    return np.asarray(values, dtype=kind)
