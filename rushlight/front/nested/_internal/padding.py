"""Between parts one behind another and rows that are filled up."""

import rushlight as rl
from rushlight.nested._internal.nested_tensor import values_of, wrapped

__all__ = [
    "from_padded",
    "leading_rows",
    "packed",
    "pad_to",
    "padded",
    "part_of_rows",
    "padded_positions",
    "rows_of",
    "rows_of_same",
]


def part_of_rows(nested):
    """Which part each row of the values belongs to; rows between parts are left out."""
    cache = nested._metadata_cache
    if "parts" not in cache:
        lengths = nested._lengths
        lengths = nested._offsets.diff() if lengths is None else lengths
        count = rl.arange(len(nested), device=lengths.device)
        cache["parts"] = count.repeat_interleave(lengths)
    return cache["parts"]


def _rows_in_values(nested):
    """Where the rows of parts are in the values; None where they are all of them."""
    if nested._lengths is None:
        return None
    parts = part_of_rows(nested)
    ends = nested._lengths.cumsum(0)
    before = (ends - nested._lengths)[parts]
    return nested._offsets[:-1][parts] + rl.arange(parts.numel()) - before


def _position_in_part(nested):
    """The place of each row in its part."""
    parts = part_of_rows(nested)
    if nested._lengths is None:
        starts = nested._offsets[:-1]
        first = 0 if not parts.numel() else nested._offsets[0]
        return rl.arange(parts.numel(), device=parts.device) + first - starts[parts]
    ends = nested._lengths.cumsum(0)
    return rl.arange(parts.numel()) - (ends - nested._lengths)[parts]


def padded_positions(nested, length):
    """The place of each row among rows filled up to a length, counted through."""
    known = nested._metadata_cache.get("places")
    if known is None or known[0] != length:
        known = length, part_of_rows(nested) * length + _position_in_part(nested)
        nested._metadata_cache["places"] = known
    return known[1]


def leading_rows(nested):
    """The values of parts with the ragged dimension first, gaps left out."""
    values = values_of(nested)
    if nested._ragged_idx != 1:
        values = values.movedim(nested._ragged_idx - 1, 0)
    rows = _rows_in_values(nested)
    if rows is not None:
        return values.index_select(0, rows)
    total = part_of_rows(nested).numel()
    return values if values.shape[0] == total else values[:total]


def packed(nested):
    """The same parts without gaps."""
    if nested._lengths is None:
        return wrapped(values_of(nested).contiguous(), *nested.raggedness)
    rows, at = leading_rows(nested), nested._ragged_idx
    offsets = rl.nn.functional.pad(nested._lengths.cumsum(0), (1, 0))
    cache = {k: v for k, v in nested._metadata_cache.items() if "seqlen" in k}
    return wrapped(rows.movedim(0, at - 1).contiguous(), offsets, None, at, cache)


def padded(nested, padding, output_size=None):
    """Parts as rows of one tensor, filled up at the end.

    Args:
        nested: the tensor.
        padding: the number to fill with.
        output_size: sizes of the result; parts that are longer are cut short.

    Raises:
        RuntimeError: another size than the ragged one is smaller than the parts'.
    """
    at, count = nested._ragged_idx, len(nested)
    longest = nested._get_max_seqlen()
    sizes = None if output_size is None else list(output_size)
    length = longest if sizes is None else int(sizes[at])
    rows = leading_rows(nested)
    out = rows.new_full((count * length, *rows.shape[1:]), padding)
    if rows.shape[0] and length >= longest:
        out = out.index_copy(0, padded_positions(nested, length), rows)
    elif rows.shape[0] and length:
        kept = (_position_in_part(nested) < length).nonzero().squeeze(1)
        positions = padded_positions(nested, length).index_select(0, kept)
        out = out.index_copy(0, positions, rows.index_select(0, kept))
    out = out.unflatten(0, (count, length)).movedim(1, at)
    return out if sizes is None else pad_to(out, sizes, padding)


def pad_to(out, sizes, padding):
    """A tensor filled up at the ends of its dimensions.

    Args:
        out: the tensor.
        sizes: what it is to have.
        padding: the number to fill with.

    Raises:
        RuntimeError: it is larger.
    """
    more = [int(want) - have for want, have in zip(sizes, out.shape)]
    if len(sizes) != out.dim() or min(more, default=0) < 0:
        raise RuntimeError(
            "Value in output_size is less than NestedTensor padded size. Truncation is "
            "not supported."
        )
    if not any(more):
        return out
    amounts = [n for each in reversed(more) for n in (0, each)]
    return rl.nn.functional.pad(out, amounts, value=padding)


def rows_of(dense, like):
    """What of each row of a tensor goes with the parts of a nested one, as its values.

    Args:
        dense: as many rows as there are parts; 1 along the ragged dimension, or at least
            as long as the longest part.
        like: the nested tensor.

    Raises:
        RuntimeError: it is shorter than a part.
    """
    at = like._ragged_idx
    if dense.shape[at] == 1:
        rows = dense.select(at, 0).index_select(0, part_of_rows(like))
        return rows.movedim(0, at - 1)
    length = dense.shape[at]
    if length < like._get_max_seqlen():
        raise RuntimeError(
            f"cannot cut a tensor of sizes {tuple(dense.shape)} like a nested one of "
            f"{like._size}: its longest part has {like._get_max_seqlen()}"
        )
    rows = dense.movedim(at, 1).flatten(0, 1)
    return rows.index_select(0, padded_positions(like, length)).movedim(0, at - 1)


def from_padded(dense, offsets, ragged_idx=1):
    """The parts of rows that were filled up.

    Args:
        dense: the rows.
        offsets: of the parts.
        ragged_idx: the dimension that was filled up.
    """
    sizes = list(dense.shape[1:])
    sizes[ragged_idx - 1] = int(offsets[-1])
    like = wrapped(dense.new_empty(1).expand(sizes), offsets, None, ragged_idx)
    return wrapped(rows_of_same(dense, like), *like.raggedness)


def rows_of_same(dense, like):
    """The same, of a tensor that is as long as the longest part even where that is 1."""
    at = like._ragged_idx
    rows = dense.movedim(at, 1)
    length = rows.shape[1]
    rows = rows.flatten(0, 1).index_select(0, padded_positions(like, length))
    return rows.movedim(0, at - 1)
