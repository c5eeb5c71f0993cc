"""Tables whose rows are integers, each row with a scale."""

import rushlight as rl
from rushlight import nn
from rushlight.ao.nn import qat
from rushlight.ao.nn.quantized.common import checked, quantize_weight, weight_observer


class EmbeddingPackedParams(nn.Module):
    """A packed table as a module, whose state is the table.

    Args:
        num_embeddings, embedding_dim: its sizes.
        dtype: quint8 or quint4x2.
    """

    _version = 1

    def __init__(self, num_embeddings, embedding_dim, dtype=rl.quint8):
        super().__init__()
        self.dtype = dtype
        if dtype not in (rl.quint8, rl.quint4x2):
            raise NotImplementedError(
                "Unsupported dtype on quantized embedding! Supports quint8 and quint4x2, "
                f"got {dtype}."
            )
        weight = rl.zeros([num_embeddings, embedding_dim])
        scales, points = rl.ones(num_embeddings), rl.ones(num_embeddings)
        self.set_weight(rl.quantize_per_channel(weight, scales, points, 0, dtype))

    def set_weight(self, weight):
        """Packs a table."""
        self._packed_weight = rl.ops.quantized.embedding_bag_prepack(weight)

    def _weight(self):
        return rl.ops.quantized.embedding_bag_unpack(self._packed_weight)

    def forward(self, x):
        """The value."""
        return x

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_weight"] = self._weight()

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, *rest
    ):
        self.dtype = state_dict.pop(prefix + "dtype")
        self.set_weight(state_dict.pop(prefix + "_packed_weight"))
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, *rest
        )

    def __repr__(self):
        return self._weight().__repr__()


class Embedding(nn.Module):
    """Rows of a quantized table, as numbers.

    Args:
        num_embeddings, embedding_dim: sizes.
        padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse: taken as for tables
            of numbers, and not used.
        _weight: the quantized table; None for one of zeros.
        dtype: of the table.

    Shape:
        - Input: any, of integers.
        - Output: ``(*, embedding_dim)``, float32.
    """

    _version = 1

    def __init__(
        self, num_embeddings, embedding_dim, padding_idx=None, max_norm=None,
        norm_type=2.0, scale_grad_by_freq=False, sparse=False, _weight=None,
        dtype=rl.quint8,
    ):  # fmt: skip
        super().__init__()
        self.num_embeddings, self.embedding_dim = num_embeddings, embedding_dim
        self.dtype = dtype
        if _weight is not None and tuple(_weight.shape) != (
            num_embeddings,
            embedding_dim,
        ):
            raise AssertionError(
                "Shape of weight does not match num_embeddings and embedding_dim"
            )
        self._packed_params = EmbeddingPackedParams(
            num_embeddings, embedding_dim, dtype
        )
        if _weight is not None:
            self._packed_params.set_weight(_weight)

    def forward(self, indices):
        """The rows of some indices."""
        packed = self._packed_params
        if packed.dtype == rl.quint4x2:
            return rl.ops.quantized.embedding_4bit(packed._packed_weight, indices)
        return rl.ops.quantized.embedding_byte(packed._packed_weight, indices)

    def _get_name(self):
        return "QuantizedEmbedding"

    def __repr__(self):
        return f"{self._get_name()}({self.extra_repr()})"

    def extra_repr(self):
        """Sizes, type and scheme."""
        return (
            f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, "
            f"dtype={self.dtype}, qscheme={self.weight().qscheme()}"
        )

    def set_weight(self, w):
        """Packs a table."""
        self._packed_params.set_weight(w)

    def weight(self):
        """The quantized table."""
        return self._packed_params._weight()

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """A table made of one of numbers.

        Raises:
            AssertionError: it is of another kind, or is to have another scheme.
        """
        from rushlight.ao.quantization import qconfig as configs

        checked(cls, mod, cls._kinds())
        default = configs.float_qparams_weight_only_qconfig.weight
        observer = weight_observer(mod, default)
        if observer.qscheme != rl.per_channel_affine_float_qparams:
            raise AssertionError(
                "Embedding quantization is only supported with "
                "float_qparams_weight_only_qconfig."
            )
        if not use_precomputed_fake_quant:
            observer(mod.weight)
        table = quantize_weight(mod.weight.detach().float(), observer)
        found = cls._like(mod, observer.dtype)
        found.set_weight(table)
        return found

    @classmethod
    def _kinds(cls):
        return nn.Embedding, qat.Embedding

    @classmethod
    def _like(cls, mod, dtype):
        return cls(mod.num_embeddings, mod.embedding_dim, dtype=dtype)


class EmbeddingBag(Embedding):
    """Sums of bags of rows of a quantized table, as numbers.

    Args:
        num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, sparse,
            _weight: as for `Embedding`.
        settings: ``dtype`` of the table.
        mode: ``sum``; other ones have no kernel.
        include_last_offset: whether the last offset is the end.
    """

    def __init__(
        self, num_embeddings, embedding_dim, max_norm=None, norm_type=2.0,
        scale_grad_by_freq=False, mode="sum", sparse=False, _weight=None,
        include_last_offset=False, **settings,
    ):  # fmt: skip
        super().__init__(num_embeddings, embedding_dim, _weight=_weight, **settings)
        self.mode, self.include_last_offset = mode, include_last_offset
        self.pruned_weights = False

    def forward(
        self, indices, offsets=None, per_sample_weights=None,
        compressed_indices_mapping=None,
    ):  # fmt: skip
        """The sums of bags.

        Args:
            indices: of rows; a matrix has a bag in each row.
            offsets: where bags begin.
            per_sample_weights: by which rows are multiplied.
            compressed_indices_mapping: of tables that were pruned.
        """
        packed = self._packed_params
        if packed.dtype == rl.quint4x2:
            return rl.ops.quantized.embedding_bag_4bit(
                packed._packed_weight, indices, offsets, False, 0, self.pruned_weights,
                per_sample_weights, compressed_indices_mapping, self.include_last_offset,
            )  # fmt: skip
        return rl.ops.quantized.embedding_bag_byte(
            packed._packed_weight, indices, offsets, False, 0, self.pruned_weights,
            per_sample_weights, compressed_indices_mapping, self.include_last_offset,
        )  # fmt: skip

    def _get_name(self):
        return "QuantizedEmbeddingBag"

    @classmethod
    def _kinds(cls):
        return nn.EmbeddingBag, qat.EmbeddingBag

    @classmethod
    def _like(cls, mod, dtype):
        return cls(
            mod.num_embeddings, mod.embedding_dim, mod.max_norm, mod.norm_type,
            mod.scale_grad_by_freq, mod.mode, mod.sparse,
            include_last_offset=mod.include_last_offset, dtype=dtype,
        )  # fmt: skip
