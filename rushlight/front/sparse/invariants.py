"""What the parts of sparse tensors have to keep, and where that is checked."""

import functools

from rushlight.core import layout as layouts
from rushlight.operators.loop_calls import scalar_name


class check_sparse_tensor_invariants:
    """While active, the parts of new sparse tensors are checked.

    Used as a context manager or a decorator, or through ``enable`` and ``disable``.

    Args:
        enable: whether parts are checked inside.

    >>> import rushlight as rl
    >>> with check_sparse_tensor_invariants():
    ...     check_sparse_tensor_invariants.is_enabled()
    True
    """

    _state = False

    @staticmethod
    def is_enabled():
        """Whether parts are checked unless a call says otherwise."""
        return check_sparse_tensor_invariants._state

    @staticmethod
    def enable():
        """From now on parts are checked."""
        check_sparse_tensor_invariants._state = True

    @staticmethod
    def disable():
        """From now on parts are taken on trust."""
        check_sparse_tensor_invariants._state = False

    def __init__(self, enable=True):
        self.state = enable
        self.saved_state = None

    def __enter__(self):
        if self.saved_state is not None:
            raise RuntimeError(
                "This context manager instance is already activated. Use a different "
                "context manager instance for context nesting."
            )
        self.saved_state = self.is_enabled()
        check_sparse_tensor_invariants._state = self.state

    def __exit__(self, *_raised):
        check_sparse_tensor_invariants._state = self.saved_state
        self.saved_state = None

    def __call__(self, function):
        @functools.wraps(function)
        def inside(*args, **kwargs):
            with type(self)(self.state):
                return function(*args, **kwargs)

        return inside


def check_coo(indices, values, size, is_coalesced=None):
    """Refuses coordinates outside of the sizes.

    Raises:
        RuntimeError: there are some, or some twice where each was to be there once.
    """
    if indices.is_meta:
        return  # there are no numbers to look at
    for dim, row in enumerate(indices):
        if not row.numel():
            continue
        low, high = row.min().item(), row.max().item()
        if low < 0:
            raise RuntimeError(f"found negative index {low} for dim {dim}")
        if high >= size[dim]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {dim}, size is {size[dim]} "
                f"but found index {high}"
            )
    if is_coalesced and indices.shape[1] > 1:
        place = 0
        for row, extent in zip(indices, size):
            place = place * extent + row
        if bool((place.diff() <= 0).any()):
            raise RuntimeError(
                "cannot set is_coalesced to true if indices correspond to uncoalesced "
                "COO tensor"
            )


def _check_sizes(names, compressed, plain, values, size, layout):
    """Refuses parts of a compressed tensor whose sizes do not fit each other's.

    Args:
        names: of the two index tensors.
        compressed, plain, values, size, layout: as for `check_compressed`.

    Raises:
        RuntimeError: they do not.
    """
    batch = compressed.dim() - 1
    blocks = 2 if layout in (layouts.sparse_bsr, layouts.sparse_bsc) else 0
    dense = values.dim() - batch - blocks - 1
    _need(batch >= 0, f"{names[0]} must have dimensionality >= 1 but got {batch + 1}")
    _need(
        plain.dim() == compressed.dim(),
        f"{names[0]} and {names[1]} dimensionalities must be equal but got "
        f"{compressed.dim()} and {plain.dim()}, respectively",
    )
    _need(
        dense >= 0,
        "values must have dimensionality > sum of batch and block dimensionalities "
        f"(={batch} + {blocks}) but got {values.dim()}",
    )
    _need(
        len(size) == batch + 2 + dense,
        "tensor dimensionality must be sum of batch, base, and dense dimensionalities "
        f"(={batch} + 2 + {dense}) but got {len(size)}",
    )
    found = [list(each.shape[:batch]) for each in (compressed, plain, values)]
    wanted = list(size[:batch])
    _need(
        found == [wanted] * 3,
        f"all batch dimensions of {names[0]} (={found[0]}), {names[1]} (={found[1]}), and "
        f"values (={found[2]}) must be equal to tensor batch dimensions (={wanted})",
    )
    _check_counts(names, compressed, plain, values, size, layout)


def _check_counts(names, compressed, plain, values, size, layout):
    by_rows = layout in (layouts.sparse_csr, layouts.sparse_bsr)
    batch = compressed.dim() - 1
    lines, word = size[batch if by_rows else batch + 1], "row" if by_rows else "column"
    if layout in (layouts.sparse_bsr, layouts.sparse_bsc):
        lines //= max(values.shape[batch + (1 if by_rows else 2)], 1)
        word += " block"
    _need(
        compressed.shape[-1] == lines + 1,
        f"{names[0]}.shape[-1] must be equal to the number of {word}s + 1 (={lines + 1}), "
        f"but got {compressed.shape[-1]}",
    )
    _need(
        plain.shape[-1] == values.shape[batch],
        f"{names[1]}.shape[-1] must be equal to nnz (={values.shape[batch]}) as defined by "
        f"values.shape[{batch}], but got {plain.shape[-1]}",
    )


def _need(fits, words):
    if not fits:
        raise RuntimeError(words)


def check_compressed(compressed, plain, values, size, layout):
    """Refuses indices of a compressed tensor that contradict each other.

    Raises:
        RuntimeError: they do.
    """
    by_rows = layout in (layouts.sparse_csr, layouts.sparse_bsr)
    names = (
        ("crow_indices", "col_indices") if by_rows else ("ccol_indices", "row_indices")
    )
    _check_sizes(names, compressed, plain, values, size, layout)
    counted = plain.shape[-1]
    if compressed.dtype is not plain.dtype:
        kinds = " and ".join(scalar_name(each.dtype) for each in (compressed, plain))
        raise RuntimeError(
            f"{names[0]} and {names[1]} must have the same dtype, bot got {kinds}, "
            "respectively"
        )
    if plain.is_meta:
        return
    if bool((compressed[..., 0] != 0).any()):
        raise RuntimeError(f"`{names[0]}[..., 0] == 0` is not satisfied.")
    if bool((compressed[..., -1] != counted).any()):
        raise RuntimeError(f"`{names[0]}[..., -1] == nnz` is not satisfied.")
    steps = compressed.diff()
    batch = compressed.dim() - 1
    extent = size[batch + 1] if by_rows else size[batch]
    if layout in (layouts.sparse_bsr, layouts.sparse_bsc):
        extent //= max(values.shape[batch + (2 if by_rows else 1)], 1)
    if bool(((steps < 0) | (steps > extent)).any()):
        raise RuntimeError(
            f"`0 <= {names[0]}[..., 1:] - {names[0]}[..., :-1] <= "
            f"{'ncols' if by_rows else 'nrows'}` is not satisfied."
        )
    if plain.numel() and (plain.min().item() < 0 or plain.max().item() >= extent):
        raise RuntimeError(
            f"`0 <= {names[1]} < {'ncols' if by_rows else 'nrows'}` is not satisfied."
        )
    lines = compressed.reshape(-1, compressed.shape[-1])
    for starts, element_indices in zip(
        lines.tolist(), plain.reshape(-1, counted).tolist()
    ):
        for first, last in zip(starts, starts[1:]):
            part = element_indices[first:last]
            if any(b <= a for a, b in zip(part, part[1:])):
                raise RuntimeError(
                    f"`{names[1]}[..., {names[0]}[..., i - 1]:{names[0]}[..., i]] for all "
                    f"i = 1, ..., {'nrows' if by_rows else 'ncols'} are sorted and "
                    "distinct along the last dimension values` is not satisfied."
                )
