"""Products with weights that are kept in bytes or in half bytes, and become numbers here.

Few rows, as where tokens are generated, go through a kernel that reads weights as they are
kept; for many rows the weights are made numbers once.
"""

import functools

from rushlight.core.dtypes import float32, int8, int32, uint8
from rushlight.core.roles import host
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import fresh
from rushlight.operators.shared import has_elements

BLOCK = 64  # columns whose half bytes lie together
GROUPS = (32, 64, 128, 256)
ROWS_OF_HALVES = 6  # that share what is read of half bytes, at most
# Rows that are multiplied by weights as they are kept: of bytes, of half bytes.
MOST_ROWS, MOST_ROWS_OF_HALVES = 16, 96


def _refuse(name, words):
    raise RuntimeError(f"{name} : expect {words}")


def _check_numbers(name, x):
    if x.dtype.name not in ("float32", "float16", "bfloat16"):
        _refuse(name, "A to be either 32-bit or 16-bit float tensor.")
    if x.dim() != 2:
        _refuse(name, f"A to be 2D tensor, got {x.dim()}D.")


def _check_type(wanted, found):
    if found.dtype is not wanted.dtype:
        names = {"float32": "Float", "bfloat16": "BFloat16", "float16": "Half"}
        raise RuntimeError(
            f"expected scalar type {names.get(wanted.dtype.name)} but found "
            f"{names.get(found.dtype.name, found.dtype.name)}"
        )


def weight_int8pack_mm(self, mat2, scales):
    """``(self @ mat2.T) * scales``, of weights in bytes.

    Raises:
        RuntimeError: the types or sizes don't go together.
    """
    name = "_weight_int8pack_mm_cpu"
    _check_numbers(name, self)
    if mat2.dtype is not int8:
        _refuse(name, "B to be int8 tensor.")
    rows, depth = self.shape
    if mat2.dim() != 2 or mat2.shape[1] != depth:
        _refuse(name, f"B.size(1) == {depth}")
    columns = mat2.shape[0]
    if scales.dim() != 1 or scales.shape[0] != columns:
        _refuse(name, f"scales to be 1d tensor with size {columns}")
    _check_type(self, scales)
    if rows > MOST_ROWS:
        found = ops.mm(self.to(float32), mat2.to(float32).t())
        return (found * scales.to(float32)).to(self.dtype)
    out = fresh(self, (rows, columns))
    if has_elements(out):
        from rushlight.kernels.matmul import weight_only as kernels

        operands = out, self.contiguous(), mat2.contiguous(), scales.contiguous()
        blocks = -(-columns // kernels.BYTES_ROWS)
        for start in range(0, rows, kernels.TOGETHER):
            together = min(kernels.TOGETHER, rows - start)
            name = self.dtype.name
            kernel = kernels.kernel_of(kernels.whole_bytes, name, together)
            grain = _grain(kernels.BYTES_ROWS * depth * together)
            host.launch.launch(kernel, operands, (depth, columns, start), blocks, grain)
    return out


def _grain(work):
    return max(1, host.launch.SMALLEST_TASK // max(work, 1))


def _only_on_gpus(name):
    """A kernel for hosts of an operator that PyTorch has none of on a CPU either."""

    def refuse(*_):
        raise NotImplementedError(
            f"Could not run 'aten::{name}' with arguments from the 'CPU' backend. This "
            "could be because the operator doesn't exist for this backend."
        )

    return refuse


refuse_convert_weight_to_int4pack = _only_on_gpus("_convert_weight_to_int4pack")
refuse_weight_int4pack_mm = _only_on_gpus("_weight_int4pack_mm")
refuse_scaled_grouped_mm = _only_on_gpus("_scaled_grouped_mm")


def convert_weight_to_int4pack(self, innerKTiles):
    """Integers from 0 to 15 as half bytes, in the order in which products read them.

    Of each 64 columns (rows of ``self``) and place of the depth there are 32 bytes, with
    column i below column i + 32; what is left over has neighbours in a byte.

    Raises:
        RuntimeError: the type or sizes aren't right.
    """
    name = "_convert_weight_to_int4pack_cpu"
    if self.dim() != 2:
        _refuse(name, "weight to be 2D tensor.")
    if self.dtype is not int32:
        _refuse(name, "weight to be kInt.")
    columns, depth = self.shape
    if columns % 16:
        _refuse(name, "N to be dividable by 16")
    if depth % 2:
        raise RuntimeError("_convert_weight_to_int4pack: expect K to be dividable by 2")
    whole = columns - columns % BLOCK
    half = BLOCK // 2
    blocks = self[:whole].reshape(-1, 2, half, depth)
    parts = [(blocks[:, 0] | blocks[:, 1] << 4).mT.reshape(-1)]
    rest = self[whole:]
    parts.append((rest[0::2] | rest[1::2] << 4).t().reshape(-1))
    return ops.cat(parts).to(uint8).reshape(columns, depth // 2)


def _numbers_of(packed, group, pairs, depth, start, stop):
    """Some columns as numbers, with the depth first; all of a kind of block.

    Args:
        packed: half bytes of all columns.
        group: places of the depth that share a scale and a zero.
        pairs: (groups, columns, 2).
        start, stop: the columns.
    """
    flat = packed.reshape(-1)[start * depth // 2 : stop * depth // 2]
    if (stop - start) % BLOCK == 0:
        flat = flat.reshape(-1, depth, BLOCK // 2)
        both = ops.cat([flat & 15, flat >> 4], -1).transpose(0, 1)
    else:
        flat = flat.reshape(depth, -1)
        both = ops.stack([flat & 15, flat >> 4], -1)
    numbers = both.reshape(depth // group, group, stop - start).to(float32) - 8
    scale, zero = pairs[:, start:stop].to(float32).unsqueeze(1).unbind(-1)
    return (numbers * scale + zero).reshape(depth, stop - start)


def _check_int4(name, self, mat2, group, pairs):
    _check_numbers(name, self)
    rows, depth = self.shape
    if mat2.dtype is not uint8:
        _refuse(name, "B to be uint8 tensor.")
    if mat2.dim() != 2 or mat2.shape[1] != depth // 2:
        _refuse(name, f"B.size(1) to be K/2, got {mat2.shape[-1]}")
    if group not in GROUPS:
        raise RuntimeError(
            f"{name}: expect qGroupSize to be 32, 64, 128 or 256, got {group}"
        )
    if depth % group:
        raise RuntimeError(
            f"{name}: expect K to be divisible by qGroupSize, got K:{depth}, "
            f"qGroupSize:{group}"
        )
    wanted = (depth // group, mat2.shape[0], 2)
    if tuple(pairs.shape) != wanted:
        _refuse(name, f"qScaleAndZeros to be 3d tensor with sizes {list(wanted)}")
    if mat2.shape[0] % 16:
        _refuse(name, "N to be dividable by 16")
    _check_type(self, pairs)


def weight_int4pack_mm(self, mat2, qGroupSize, qScaleAndZeros):
    """``self @ W`` where W is ``(q - 8) scale + zero`` of half bytes, by groups.

    Raises:
        RuntimeError: the types or sizes don't go together.
    """
    _check_int4("_weight_int4pack_mm_cpu", self, mat2, qGroupSize, qScaleAndZeros)
    rows, depth = self.shape
    columns = mat2.shape[0]
    whole = columns - columns % BLOCK
    if not depth:
        return ops.new_zeros(self, (rows, columns))
    out = fresh(self, (rows, columns))
    if not has_elements(out):
        return out
    if rows > MOST_ROWS_OF_HALVES:
        return _by_numbers(self, mat2, qGroupSize, qScaleAndZeros, 0, columns)
    if whole:
        x = self.contiguous() if _takes_pairs(self.dtype) else self.to(float32)
        x = x.contiguous()
        masses = ops.sum(x.view(rows, -1, qGroupSize), [-1], dtype=float32)
        pairs = qScaleAndZeros.contiguous()
        operands = out, x, mat2.contiguous(), pairs, masses
        _launch_int4(operands, rows, depth, columns, qGroupSize)
    if whole < columns:
        rest = _by_numbers(self, mat2, qGroupSize, qScaleAndZeros, whole, columns)
        out[:, whole:] = rest
    return out


@functools.cache
def _takes_pairs(dtype):
    from rushlight.kernels.matmul.weight_only import takes_pairs

    return takes_pairs(dtype)


@functools.cache
def _int4_kernel(dtype, rows):
    from rushlight.kernels.matmul import weight_only as kernels

    return kernels.kernel_of(kernels.half_bytes, dtype.name, rows)


def _launch_int4(operands, rows, depth, columns, group):
    for start in range(0, rows, ROWS_OF_HALVES):
        together = min(ROWS_OF_HALVES, rows - start)
        kernel = _int4_kernel(operands[0].dtype, together)
        ints = depth, columns, group, start
        grain = _grain(BLOCK * depth * together)
        host.launch.launch(kernel, operands, ints, columns // BLOCK, grain)


def _by_numbers(self, mat2, group, pairs, start, stop):
    """The product with some columns, which become numbers first."""
    from rushlight.kernels.matmul import weight_only as kernels

    depth, columns = self.shape[1], mat2.shape[0]
    middle = columns - columns % BLOCK
    if start < middle and (start, stop) == (0, columns):
        numbers = fresh(self, (depth, columns), float32)
        operands = None, numbers, mat2.contiguous(), pairs.contiguous()
        kernel = kernels.kernel_of(kernels.half_numbers, self.dtype.name)
        blocks, grain = columns // BLOCK, _grain(BLOCK * depth)
        host.launch.launch(kernel, operands, (depth, columns, group, 0), blocks, grain)
        if middle < columns:
            rest = _numbers_of(mat2, group, pairs, depth, middle, columns)
            numbers[:, middle:] = rest
    else:
        numbers = _numbers_of(mat2, group, pairs, depth, start, stop)
    return ops.mm(self.to(float32), numbers).to(self.dtype)
