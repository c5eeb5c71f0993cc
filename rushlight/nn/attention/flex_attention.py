"""Attention whose scores and mask a program computes itself, from the positions.

A score or mask function is called once, with tensors of all positions that broadcast
against each other, and so is written for one position and computed for all.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypedDict

import rushlight as rl

__all__ = [
    "AuxOutput",
    "AuxRequest",
    "BlockMask",
    "FlexKernelOptions",
    "and_masks",
    "create_block_mask",
    "create_mask",
    "flex_attention",
    "noop_mask",
    "or_masks",
]

_score_mod_signature = Callable[..., Any]
_mask_mod_signature = Callable[..., Any]
_DEFAULT_SPARSE_BLOCK_SIZE = 128


class FlexKernelOptions(TypedDict, total=False):
    """PyTorch's options of its GPU kernels; they are checked, and choose nothing here."""

    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int
    BLOCK_M1: int
    BLOCK_N1: int
    BLOCK_M2: int
    BLOCK_N2: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    FORCE_USE_FLEX_ATTENTION: bool
    USE_TMA: bool
    kpack: int
    matrix_instr_nonkdim: int
    waves_per_eu: int
    BACKEND: str


_BACKENDS = ("AUTO", "TRITON", "FLASH", "TRITON_DECODE")


def _check_options(options, return_lse, return_aux):
    """Refuse options that contradict each other, or are unknown."""
    if return_lse and return_aux is not None:
        raise ValueError(
            "Cannot specify both return_lse and return_aux. return_lse is deprecated, "
            "please use return_aux=AuxRequest(lse=True) instead."
        )
    if not options:
        return
    if "BACKEND" in options:
        if options.get("FORCE_USE_FLEX_ATTENTION", False):
            raise RuntimeError(
                "BACKEND cannot be combined with legacy FORCE_USE_FLEX_ATTENTION. "
                "BACKEND supersedes the legacy knob; please drop "
                "FORCE_USE_FLEX_ATTENTION and only specify the desired BACKEND."
            )
        if options["BACKEND"] not in _BACKENDS:
            raise ValueError(
                f"Invalid BACKEND value '{options['BACKEND']}'. Must be one of "
                f"{_BACKENDS}"
            )
    for name in ("OUTPUT_LOGSUMEXP", "OUTPUT_MAX"):
        if name in options:
            raise AssertionError(f"{name} must not be in kernel_options")
    largest = return_aux is not None and return_aux.max_scores
    if options.get("BACKEND") == "FLASH" and largest:
        raise NotImplementedError(
            "Returning max scores is not supported with BACKEND='FLASH'. Use "
            "return_aux=AuxRequest(lse=True) or omit max_scores."
        )


class AuxRequest(NamedTuple):
    """What to give beside the result."""

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """What was asked for beside the result."""

    lse: Any = None
    max_scores: Any = None


def _identity(score, batch, head, q_idx, kv_idx):
    """Scores as they are."""
    return score


def noop_mask(batch, head, token_q, token_kv):
    """A mask that hides nothing."""
    return batch.new_ones(size=(), dtype=rl.bool, device=batch.device)


def and_masks(*mask_mods):
    """A mask that shows what all of several show."""

    def and_mask(b, h, q_idx, kv_idx):
        result = noop_mask(b, h, q_idx, kv_idx)
        for mask in mask_mods:
            result = result & mask(b, h, q_idx, kv_idx)
        return result

    return and_mask


def or_masks(*mask_mods):
    """A mask that shows what one of several shows."""

    def or_mask(b, h, q_idx, kv_idx):
        result = ~noop_mask(b, h, q_idx, kv_idx)
        for mask in mask_mods:
            result = result | mask(b, h, q_idx, kv_idx)
        return result

    return or_mask


def _positions(sizes, device):
    """For each dimension its positions, so shaped that they broadcast."""
    made = []
    for dim, size in enumerate(sizes):
        shape = [1] * len(sizes)
        shape[dim] = size
        made.append(rl.arange(size, device=device).reshape(shape))
    return made


def create_mask(mod_fn, B, H, Q_LEN, KV_LEN, device=None):
    """What a mask, or score, function says for every pair of positions.

    Args:
        mod_fn: called with batch, head, query and key positions; with a score of zero
            before them where it takes five arguments.
        B, H: the numbers of batches and heads; None is one.

    >>> create_mask(lambda b, h, q, k: q >= k, None, None, 2, 2)
    tensor([[[[ True, False],
              [ True,  True]]]])
    """
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    positions = _positions(sizes, device)
    if _takes_score(mod_fn):
        zero = rl.zeros(sizes, device=device)
        return mod_fn(zero, *positions).expand(sizes).clone()
    shown = mod_fn(*positions)
    shown = rl.as_tensor(shown, dtype=rl.bool, device=device)
    return shown.expand(sizes).clone()


def _takes_score(fn):
    import inspect

    parameters = inspect.signature(fn).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    wanted = [p for p in parameters if p.kind in kinds and p.default is p.empty]
    return len(wanted) == 5


class BlockMask:
    """A mask function, and which blocks of positions it shows something of.

    ``kv_indices`` lists for each block of queries the blocks of keys that are shown in
    part, of which ``kv_num_blocks`` count; ``full_kv_indices`` those that are shown whole.
    """

    def __init__(
        self,
        seq_lengths,
        kv_num_blocks,
        kv_indices,
        full_kv_num_blocks,
        full_kv_indices,
        q_num_blocks=None,
        q_indices=None,
        full_q_num_blocks=None,
        full_q_indices=None,
        BLOCK_SIZE=(_DEFAULT_SPARSE_BLOCK_SIZE, _DEFAULT_SPARSE_BLOCK_SIZE),
        mask_mod=noop_mask,
        *,
        dq_write_order=None,
        dq_write_order_full=None,
        dq_kv_order=None,
        dq_kv_order_spt=None,
    ):
        self.seq_lengths = seq_lengths
        self.kv_num_blocks = kv_num_blocks
        self.kv_indices = kv_indices
        self.full_kv_num_blocks = full_kv_num_blocks
        self.full_kv_indices = full_kv_indices
        self.q_num_blocks = q_num_blocks
        self.q_indices = q_indices
        self.full_q_num_blocks = full_q_num_blocks
        self.full_q_indices = full_q_indices
        self.BLOCK_SIZE = BLOCK_SIZE
        self.mask_mod = mask_mod
        self.dq_write_order = dq_write_order
        self.dq_write_order_full = dq_write_order_full
        self.dq_kv_order = dq_kv_order
        self.dq_kv_order_spt = dq_kv_order_spt

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks,
        kv_indices,
        full_kv_num_blocks=None,
        full_kv_indices=None,
        BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE,
        mask_mod=None,
        seq_lengths=None,
        compute_q_blocks=True,
        *,
        dq_write_order=None,
        dq_write_order_full=None,
        dq_kv_order=None,
    ):
        """A mask of lists that the program made itself.

        Args:
            compute_q_blocks: list also for each block of keys the blocks of queries.
            dq_write_order: kept for the program; so are the other orders.

        Raises:
            RuntimeError: the lists have no dimension of blocks.
        """
        if kv_indices.ndim < 2:
            raise RuntimeError("BlockMask must have at least 2 dimensions")
        size = (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else BLOCK_SIZE
        if seq_lengths is None:
            rows, columns = kv_indices.shape[-2:]
            seq_lengths = rows * size[0], columns * size[1]
        by_keys = [None] * 4
        if compute_q_blocks:
            by_keys[:2] = _ordered(_dense(kv_num_blocks, kv_indices).mT)
            if full_kv_num_blocks is not None:
                full = _dense(full_kv_num_blocks, full_kv_indices)
                by_keys[2:] = _ordered(full.mT)
        return cls(
            seq_lengths,
            kv_num_blocks,
            kv_indices,
            full_kv_num_blocks,
            full_kv_indices,
            *by_keys,
            size,
            mask_mod or noop_mask,
            dq_write_order=dq_write_order,
            dq_write_order_full=dq_write_order_full,
            dq_kv_order=dq_kv_order,
        )

    @property
    def shape(self):
        """Batches, heads, queries, keys."""
        return (*self.kv_num_blocks.shape[:-1], *self.seq_lengths)

    def numel(self):
        """The number of pairs of positions."""
        return math.prod(self.shape)

    def to_dense(self):
        """1 for each block that is shown, wholly or in part."""
        dense = _dense(self.kv_num_blocks, self.kv_indices)
        if self.full_kv_num_blocks is not None:
            dense = dense | _dense(self.full_kv_num_blocks, self.full_kv_indices)
        return dense.to(rl.int32)

    def sparsity(self):
        """How many of a hundred blocks are hidden."""
        dense = self.to_dense()
        return 100.0 * (1 - dense.sum().item() / dense.numel())

    def to(self, device):
        """The mask with its lists on a device."""
        lists = (
            self.kv_num_blocks,
            self.kv_indices,
            self.full_kv_num_blocks,
            self.full_kv_indices,
            self.q_num_blocks,
            self.q_indices,
            self.full_q_num_blocks,
            self.full_q_indices,
        )
        moved = [None if one is None else one.to(device) for one in lists]
        return BlockMask(self.seq_lengths, *moved, self.BLOCK_SIZE, self.mask_mod)

    def __repr__(self):
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def _dense(counts, indices):
    """Which blocks are among the first so many of each list."""
    columns = indices.shape[-1]
    counted = rl.arange(columns) < counts.unsqueeze(-1)
    dense = rl.zeros(indices.shape, dtype=rl.int32)
    dense.scatter_(-1, indices.to(rl.int64), counted.to(rl.int32))
    return dense.bool()


def _ordered(dense):
    """The numbers and the lists of the blocks that are marked."""
    counts = dense.sum(-1).to(rl.int32)
    order = rl.argsort(dense.to(rl.int32), dim=-1, descending=True, stable=True)
    return counts, order.to(rl.int32)


def create_block_mask(
    mask_mod,
    B,
    H,
    Q_LEN,
    KV_LEN,
    device=None,
    BLOCK_SIZE=_DEFAULT_SPARSE_BLOCK_SIZE,
    _compile=False,
    separate_full_blocks=True,
    compute_dq_write_order=False,
    dq_kv_order=True,
):
    """The blocks that a mask function shows something of.

    Args:
        mask_mod: called with batch, head, query and key positions.
        B, H: the numbers of batches and heads; None is one.
        separate_full_blocks: list blocks that are shown whole by themselves.
        compute_dq_write_order: only a GPU's backward has an order to keep.

    >>> mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256)
    >>> mask.to_dense().tolist()
    [[[[1, 0], [1, 1]]]]
    """
    size = (
        (BLOCK_SIZE, BLOCK_SIZE) if isinstance(BLOCK_SIZE, int) else tuple(BLOCK_SIZE)
    )
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    rows, columns = -(-Q_LEN // size[0]), -(-KV_LEN // size[1])
    padding = (0, columns * size[1] - KV_LEN, 0, rows * size[0] - Q_LEN)
    padded = rl.nn.functional.pad(mask.to(rl.int32), padding)
    blocks = padded.reshape(*mask.shape[:2], rows, size[0], columns, size[1])
    shown = blocks.sum((3, 5))
    full = shown == size[0] * size[1]
    lists = _ordered(shown > 0)
    if separate_full_blocks:
        lists = (*_ordered((shown > 0) & ~full), *_ordered(full))
    return BlockMask.from_kv_blocks(
        *lists, BLOCK_SIZE=size, mask_mod=mask_mod, seq_lengths=(Q_LEN, KV_LEN)
    )


def flex_attention(
    query,
    key,
    value,
    score_mod=None,
    block_mask=None,
    scale=None,
    enable_gqa=False,
    return_lse=False,
    kernel_options=None,
    *,
    return_aux=None,
):
    """Attention with scores and mask of one's own.

    Args:
        query: ``(B, Hq, L, E)``.
        key, value: ``(B, H, S, E)`` and ``(B, H, S, Ev)``.
        score_mod: from a score and its batch, head, query and key positions to another.
        block_mask: what ``create_block_mask`` made; hides the other keys.
        scale: ``1 / sqrt(E)`` where it is left out.
        enable_gqa: whether several heads of the query share one of key and value.
        return_lse: whether the logarithms of the sums of exponentials come back as well.
        kernel_options: a ``FlexKernelOptions``.
        return_aux: an ``AuxRequest``: what else comes back.

    Raises:
        ValueError: the heads differ without ``enable_gqa``, a tensor has not four
            dimensions, or an option is unknown.

    >>> x = rl.ones(1, 1, 2, 4)
    >>> flex_attention(x, x, x).shape
    rushlight.Size([1, 1, 2, 4])
    """
    _check_options(kernel_options, return_lse, return_aux)
    for tensor in (query, key, value):
        if tensor.dim() != 4:
            raise ValueError("NYI: query, key, and value must be 4D tensors")
    heads, shared = query.size(-3), key.size(-3)
    if heads != shared and not enable_gqa:
        raise ValueError(
            f"Expect query and key/value to have the same number of heads but got "
            f"Hq={heads} and Hkv={shared}. Try setting enable_gqa=True for GQA."
        )
    if heads % shared:
        raise ValueError(
            f"Expect number of query heads to be a multiple of kv heads for GQA but got "
            f"Hq={heads} and Hkv={shared}."
        )
    if heads != shared:
        key = key.repeat_interleave(heads // shared, -3)
        value = value.repeat_interleave(heads // shared, -3)
    scale = 1.0 / math.sqrt(query.size(-1)) if scale is None else scale
    scores = (query @ key.transpose(-2, -1)) * scale
    positions = _positions(scores.shape, query.device)
    if score_mod is not None:
        scores = score_mod(scores, *positions)
    if block_mask is not None:
        shown = rl.as_tensor(block_mask.mask_mod(*positions), dtype=rl.bool)
        scores = scores.masked_fill(~shown, float("-inf"))
    lse = scores.logsumexp(-1)
    hidden = lse == float("-inf")  # a query that may see no key gives zeros
    weights = (scores - lse.masked_fill(hidden, 0.0).unsqueeze(-1)).exp()
    out = weights.to(value.dtype) @ value
    if return_aux is not None:
        largest = scores.amax(-1) if return_aux.max_scores else None
        return out, AuxOutput(lse if return_aux.lse else None, largest)
    return (out, lse) if return_lse else out
