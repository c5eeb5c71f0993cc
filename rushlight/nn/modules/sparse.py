"""Tables of vectors."""

import numbers

import rushlight as rl
from rushlight.core.tensor import Tensor
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter

__all__ = ["Embedding", "EmbeddingBag"]


def _row_number(padding_idx, num_embeddings):
    """The padding row counted from the start; refuses one outside the table."""
    if padding_idx is None:
        return None
    if isinstance(padding_idx, numbers.Integral) and type(padding_idx) is not bool:
        padding_idx, num_embeddings = int(padding_idx), int(num_embeddings)
    if padding_idx >= num_embeddings or padding_idx < -num_embeddings:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx + num_embeddings if padding_idx < 0 else padding_idx


class _Table(Module):
    """What both kinds of table keep."""

    def _make_weight(self, given, freeze, device, dtype):
        shape = (self.num_embeddings, self.embedding_dim)
        if given is None:
            empty = rl.empty(shape, device=device, dtype=dtype)
            self.weight = Parameter(empty, requires_grad=not freeze)
            self.reset_parameters()
            return
        if tuple(given.shape) != shape:
            raise AssertionError(
                "Shape of weight does not match num_embeddings and embedding_dim"
            )
        self.weight = Parameter(given, requires_grad=not freeze)

    def reset_parameters(self):
        """Draw the table anew from the standard normal distribution."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with rl.no_grad():
                self.weight[self.padding_idx].fill_(0)


def _check_pretrained(embeddings):
    if embeddings.dim() != 2:
        raise AssertionError("Embeddings parameter is expected to be 2-dimensional")


def _differing(module, **usual):
    """What of a module is not as usual, as its text shows it."""
    values = {name: getattr(module, name) for name in usual}
    return [
        f"{name}={value}"
        for name, value in values.items()
        if value != usual[name] or (usual[name] is False and value is not False)
    ]


class Embedding(_Table):
    """A table of vectors that are looked up by number.

    Args:
        num_embeddings: number of rows.
        embedding_dim: length of each row.
        padding_idx: a row that starts as zeros and gets no gradient.
        max_norm: rows that are longer are shortened when they are looked up.
        norm_type: the norm that ``max_norm`` is about.
        scale_grad_by_freq: divide gradients by how often a row was named.
        sparse: give the weight a sparse gradient.

    Shape: numbers ``(*)`` in, ``(*, embedding_dim)`` out.
    """

    __constants__ = [
        "num_embeddings",
        "embedding_dim",
        "padding_idx",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "sparse",
    ]

    def __init__(
        self,
        num_embeddings,
        embedding_dim,
        padding_idx=None,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        sparse=False,
        _weight=None,
        _freeze=False,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = _row_number(padding_idx, num_embeddings)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.sparse = sparse
        self._make_weight(_weight, _freeze, device, dtype)

    def forward(self, input):
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self):
        parts = [
            f"{self.num_embeddings}, {self.embedding_dim}",
            *_differing(self, padding_idx=None, max_norm=None, norm_type=2),
            *_differing(self, scale_grad_by_freq=False),
        ]
        if self.sparse is not False:
            parts.append("sparse=True")
        return ", ".join(parts)

    @classmethod
    def from_pretrained(
        cls,
        embeddings,
        freeze=True,
        padding_idx=None,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        sparse=False,
    ):
        """An ``Embedding`` that uses a given table; not trained unless asked."""
        _check_pretrained(embeddings)
        rows, columns = embeddings.shape
        return cls(
            rows,
            columns,
            padding_idx,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            sparse,
            _weight=embeddings,
            _freeze=freeze,
        )


class EmbeddingBag(_Table):
    """Sums, averages or maximises the vectors of each bag of numbers.

    Args:
        num_embeddings: number of rows.
        embedding_dim: length of each row.
        max_norm, norm_type, scale_grad_by_freq, sparse: as in ``Embedding``.
        mode: ``"sum"``, ``"mean"`` or ``"max"``.
        include_last_offset: whether ``offsets`` ends with the end of the last bag.
        padding_idx: a row that doesn't count.
    """

    __constants__ = [
        "num_embeddings",
        "embedding_dim",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "mode",
        "sparse",
        "include_last_offset",
        "padding_idx",
    ]

    def __init__(
        self,
        num_embeddings,
        embedding_dim,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        mode="mean",
        sparse=False,
        _weight=None,
        include_last_offset=False,
        padding_idx=None,
        device=None,
        dtype=None,
    ):
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset
        self.padding_idx = _row_number(padding_idx, num_embeddings)
        self._make_weight(_weight, False, device, dtype)

    def forward(
        self,
        input,
        offsets: Tensor | None = None,
        per_sample_weights: Tensor | None = None,
    ):
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self):
        parts = [
            f"{self.num_embeddings}, {self.embedding_dim}",
            *_differing(self, max_norm=None, norm_type=2, scale_grad_by_freq=False),
            f"mode={self.mode!r}",
            *_differing(self, padding_idx=None),
        ]
        return ", ".join(parts)

    @classmethod
    def from_pretrained(
        cls,
        embeddings,
        freeze=True,
        max_norm=None,
        norm_type=2.0,
        scale_grad_by_freq=False,
        mode="mean",
        sparse=False,
        include_last_offset=False,
        padding_idx=None,
    ):
        """An ``EmbeddingBag`` that uses a given table; not trained unless asked."""
        _check_pretrained(embeddings)
        rows, columns = embeddings.shape
        table = cls(
            rows,
            columns,
            max_norm,
            norm_type,
            scale_grad_by_freq,
            mode,
            sparse,
            embeddings,
            include_last_offset,
            padding_idx,
        )
        table.weight.requires_grad = not freeze
        return table
