"""Tables of rows in bytes, each row with a scale and a zero point.

A packed row of a tensor form holds its integers, then scale and least number: in single
precision behind bytes, in half precision behind integers of four or two bits.
"""

from rushlight.ao._operators.packed import PackedParams
from rushlight.core.dtypes import float16, float32, uint8
from rushlight.operators import call as ops
from rushlight.operators.extensions import CUSTOM, MAKERS
from rushlight.operators.quantized.quantized import parts, together

FLOATS = 8  # bytes behind a row's integers: a scale and a least number
HALVES = 4


class EmbeddingPackedParams(PackedParams):
    """A table that quantized operators take.

    Args:
        weight: quint8 or quint4x2 of two dimensions, each row with a scale and a zero point that is
            a number.

    Raises:
        RuntimeError: it is of another type or scheme.
    """

    kind = "EmbeddingPackedParamsBase"
    state_type = "Tuple[int, List[Tensor], List[float], List[int]]"

    def __init__(self, weight):
        levels, scales, points, axis = parts(weight)
        if weight.dtype.name not in ("quint8", "quint4x2"):
            raise RuntimeError(
                "Expected a quint8 or quint4x2 weight tensor, got "
                f"{weight.dtype}\n  operator: quantized::embedding_bag_prepack"
            )
        if axis != 0 or weight.ndim != 2:
            raise RuntimeError(
                "Expect embedding_bag weights to be quantized using "
                "kPerChannelAffineFloatQParams"
            )
        self.weight, self.levels = weight, levels
        self.scales, self.points = scales.float(), points.float()
        self.least = -self.scales * self.points
        if weight.dtype.name == "quint4x2":  # whose packed rows end in half precision
            self.scales = self.scales.half().float()
            self.least = self.least.half().float()

    def settings(self):
        """What it is made of."""
        return (self.weight,)

    def stored(self):
        """A version, the table, and how many bits an element has."""
        return 1, [self.weight], [], [8 if self.weight.dtype.name == "quint8" else 4]

    def rows(self, indices):
        """The numbers of some rows."""
        indices = indices.to(ops.empty([0]).long().dtype)
        levels = ops.index_select(self.levels, 0, indices).float()
        scales = ops.index_select(self.scales, 0, indices).unsqueeze(1)
        least = ops.index_select(self.least, 0, indices).unsqueeze(1)
        return levels * scales + least


MAKERS[f"{CUSTOM}quantized.{EmbeddingPackedParams.kind}"] = lambda state: (
    EmbeddingPackedParams(*state[1])
)


def prepack(weight):
    """A table packed for lookups."""
    return EmbeddingPackedParams(weight)


def unpack(packed):
    """The table that was packed."""
    return packed.weight


def look_up(packed, indices, pruned_weights=False):
    """The numbers of the rows that indices say."""
    flat = indices.reshape([-1])
    return packed.rows(flat).reshape([*indices.shape, packed.levels.shape[1]])


def bags(
    packed, indices, offsets=None, scale_grad_by_freq=False, mode=0, pruned_weights=False,
    per_sample_weights=None, compressed_indices_mapping=None, include_last_offset=False,
):  # fmt: skip
    """Sums of the rows of bags.

    Raises:
        RuntimeError: bags have no beginnings.
    """
    return _summed(
        packed.rows, indices, offsets, per_sample_weights, include_last_offset
    )


def _summed(rows, indices, offsets, factors, include_last_offset):
    if indices.ndim == 2:
        if offsets is not None:
            raise RuntimeError(
                "embedding_bag_byte operator: input is 2D, then offsets has to be None, "
                "as input is treated is a mini-batch of fixed length sequences."
            )
        count, each = indices.shape
        found = rows(indices.reshape([-1]))
        if factors is not None:
            found = found * factors.reshape([-1, 1])
        return ops.sum(found.reshape([count, each, -1]), [1])
    if offsets is None:
        raise RuntimeError(
            "embedding_bag_byte operator expects offsets to be set for 1D indices."
        )
    found = rows(indices)
    if factors is not None:
        found = found * factors.reshape([-1, 1])
    starts = offsets.tolist()
    ends = starts[1:] if include_last_offset else [*starts[1:], indices.shape[0]]
    owners = [bag for bag, (a, b) in enumerate(zip(starts, ends)) for _ in range(b - a)]
    out = ops.zeros([len(ends), found.shape[1]])
    index = ops.new_empty(indices, [0]).new_tensor(owners)
    return ops.index_add(out, 0, index.long(), found)


def _ends_of(rows, given):
    """The least and the greatest of each row, or what is given for them.

    Raises:
        RuntimeError: what is given has another shape.
    """
    if given is None:
        return ops.amin(rows, [-1], True), ops.amax(rows, [-1], True)
    if list(given.shape) != [rows.shape[0], 2]:
        raise RuntimeError(
            "'rowwise_min_max' must be a 2D tensor with shape [num_rows(weight), 2].\n"
            f"  rowwise_min_max: {list(given.shape)}\n  weight: {list(rows.shape)}"
        )
    return given[:, :1], given[:, 1:]


def prepack_rows(weight, rowwise_min_max=None):
    """Rows of numbers as bytes, each with its scale and least number behind them."""
    shape = weight.shape
    rows = weight.detach().float().reshape([-1, shape[-1]])
    least, most = _ends_of(rows, rowwise_min_max)
    reach = most - least
    inverse = 255.0 / (reach + 1e-8)
    levels = ops.round((rows - least) * inverse).to(uint8)
    ends = ops.cat([reach / 255.0, least], 1).contiguous().view(uint8)
    return ops.cat([levels, ends], 1).reshape([*shape[:-1], shape[-1] + FLOATS])


def unpack_rows(weight):
    """The numbers of rows that were packed."""
    levels = weight[..., :-FLOATS].float()
    ends = weight[..., -FLOATS:].contiguous().view(float32)
    return levels * ends[..., :1] + ends[..., 1:]


def prepack_few(bits, bounded=False):
    """What packs rows of numbers as integers of some bits.

    Args:
        bits: of an integer.
        bounded: whether the least and the greatest of each row are given.
    """

    def prepack(weight, *given):
        bounds = given[0] if bounded else None
        optimized_qparams, nbins, ratio = given[bounded:]
        if weight.shape[-1] % (8 // bits):
            raise RuntimeError(
                f"qembeddingbag_{bits}bit_prepack only works for the number of columns a "
                f"multiple of {8 // bits}\n  weight: {list(weight.shape)}"
            )
        rows = weight.detach().float()
        least, most = _ends_of(rows, bounds)
        if optimized_qparams:
            flat = rows.reshape([-1, rows.shape[-1]])
            ends = [
                ops.choose_qparams_optimized(row, row.numel(), nbins, ratio, bits)
                for row in flat
            ]
            most, least = (
                ops.stack([pair[at].reshape([]) for pair in ends]).view_as(least)
                for at in (0, 1)
            )
        top = (1 << bits) - 1
        least = least.to(float16).float()
        reach = most - least
        scale = ops.where(reach == 0, 1.0, reach / top).to(float16).float()
        scale = ops.where((scale == 0) | ops.isinf(1 / scale), 1.0, scale)
        levels = ops.clamp(ops.round((rows - least) * (1 / scale)), 0, top)
        ends = ops.cat([scale, least], -1).to(float16).contiguous().view(uint8)
        return ops.cat([together(levels.to(uint8), bits), ends], -1)

    return prepack


def unpack_few(bits):
    """What gives the numbers of rows that were packed so."""

    def unpack(weight):
        held = weight[..., :-HALVES].unsqueeze(-1)
        shifts = held.new_tensor(list(range(0, 8, bits)))
        levels = (held >> shifts) & ((1 << bits) - 1)
        ends = weight[..., -HALVES:].clone().view(float16).float()
        return levels.flatten(-2).float() * ends[..., :1] + ends[..., 1:]

    return unpack


def bags_of(unpack):
    """What sums bags of rows that were packed.

    Args:
        unpack: gives the rows' numbers.
    """

    def apply(
        weight, indices, offsets=None, scale_grad_by_freq=False, mode=0,
        pruned_weights=False, per_sample_weights=None, compressed_indices_mapping=None,
        include_last_offset=False,
    ):  # fmt: skip
        def rows(chosen):
            return unpack(ops.index_select(weight, 0, chosen))

        return _summed(rows, indices, offsets, per_sample_weights, include_last_offset)

    return apply


_BAGS = (
    "Tensor indices, Tensor? offsets=None, bool scale_grad_by_freq=False, int mode=0, bool "
    "pruned_weights=False, Tensor? per_sample_weights=None, Tensor? "
    "compressed_indices_mapping=None, bool include_last_offset=False) -> Tensor"
)


def operators(bag):
    """Schemas, dispatch keys and functions."""
    every, numbers = "CompositeExplicitAutograd", "CPU"
    few = "Tensor weight, bool optimized_qparams=False, int nbins=200, float ratio=0.16"
    found = []
    for word in "byte", "4bit":
        found += [
            (
                f"embedding_{word}({bag} weight, Tensor indices, bool "
                "pruned_weights=False) -> Tensor",
                numbers,
                look_up,
            ),
            (f"embedding_bag_{word}({bag} weight, {_BAGS}", numbers, bags),
        ]
    for word, given, pack, unpacked in (
        ("byte", "Tensor weight", prepack_rows, unpack_rows),
        ("4bit", few, prepack_few(4), unpack_few(4)),
        ("2bit", few, prepack_few(2), unpack_few(2)),
    ):
        name = f"embedding_bag_{word}"
        bounded = given.replace("weight", "weight, Tensor rowwise_min_max", 1)
        packs = pack, pack if word == "byte" else prepack_few(int(word[0]), True)
        found += [
            (f"{name}_prepack({given}) -> Tensor", numbers, packs[0]),
            (
                f"{name}_prepack_with_rowwise_min_max({bounded}) -> Tensor",
                numbers,
                packs[1],
            ),
            (f"{name}_unpack(Tensor weight) -> Tensor", numbers, unpacked),
            (
                f"{name}_rowwise_offsets(Tensor weight, {_BAGS}",
                numbers,
                bags_of(unpacked),
            ),
        ]
    return [
        *found,
        (
            f"embedding_bag_prepack(Tensor weight) -> {bag} W_prepack",
            "QuantizedCPU",
            prepack,
        ),
        (f"embedding_bag_unpack({bag} W_prepack) -> Tensor W_origin", every, unpack),
    ]
