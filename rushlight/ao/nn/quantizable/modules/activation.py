"""Multi-head attention whose projections and products are observed one by one."""

import functools
import warnings

import rushlight as rl
from rushlight import nn
from rushlight.ao.nn.quantized.functional_modules import FloatFunctional
from rushlight.ao.quantization.quantize import prepare
from rushlight.ao.quantization.stubs import DeQuantStub, QuantStub
from rushlight.nn import functional as F

__all__ = ["MultiheadAttention"]


def _require(fact, message):
    if not fact:
        raise AssertionError(message)


def _sized(mask, samples, count, query, key):
    """An attention mask of three dimensions, as bools or numbers.

    Args:
        mask: ``[L, S]`` or ``[samples * heads, L, S]``.
        samples, count, query, key: how many samples, of attentions each, and positions.
    """
    if mask.dtype == rl.uint8:
        warnings.warn(_BYTES.format("attn_mask"), stacklevel=4)
        mask = mask.to(rl.bool)
    _require(
        mask.is_floating_point() or mask.dtype == rl.bool,
        f"Only float and bool types are supported for attn_mask, not {mask.dtype}",
    )
    if mask.dim() not in (2, 3):
        raise RuntimeError(f"attn_mask's dimension {mask.dim()} is not supported")
    word, rows = ("2D", 1) if mask.dim() == 2 else ("3D", samples * count)
    mask = mask.unsqueeze(0) if mask.dim() == 2 else mask
    if list(mask.shape) != [rows, query, key]:
        raise RuntimeError(f"The size of the {word} attn_mask is not correct.")
    return mask


_BYTES = (
    "Byte tensor for `{}` in `nn.MultiheadAttention` is deprecated. Use bool tensor "
    "instead."
)


class _Masks:
    """The masks of one call, widened as keys are added.

    Args:
        attention: ``[1 or samples * heads, L, S]``, or None.
        padding: ``[samples, S]``, or None.
    """

    def __init__(self, attention, padding):
        if padding is not None and padding.dtype == rl.uint8:
            warnings.warn(_BYTES.format("key_padding_mask"), stacklevel=4)
            padding = padding.to(rl.bool)
        self.attention, self.padding = attention, padding

    def widen(self):
        """Lets one key more be seen."""
        if self.attention is not None:
            self.attention = F.pad(self.attention, (0, 1))
        if self.padding is not None:
            self.padding = F.pad(self.padding, (0, 1))

    def check(self, samples, keys):
        """Refuses a padding mask of other sizes than the keys'."""
        if self.padding is None:
            return
        for dim, wanted in enumerate((samples, keys)):
            found = self.padding.size(dim)
            _require(
                found == wanted,
                f"key_padding_mask.size({dim}) must be {wanted}, got {found}",
            )

    def apply(self, scores, samples):
        """Scores of ``[samples * heads, L, S]`` without those that are hidden."""
        low = float("-inf")
        if self.attention is not None and self.attention.dtype == rl.bool:
            scores = scores.masked_fill(self.attention, low)
        elif self.attention is not None:
            scores = scores + self.attention
        if self.padding is not None:
            shape = scores.shape
            hidden = self.padding.unsqueeze(1).unsqueeze(2)
            scores = scores.view(samples, -1, *shape[1:]).masked_fill(hidden, low)
            scores = scores.view(shape)
        return scores


def _with_zeros(value):
    """Keys or values with one of zeros at the end."""
    zeros = rl.zeros(value.size(0), 1, value.size(2))
    if value.is_quantized:
        known = value.q_scale(), value.q_zero_point(), value.dtype
        zeros = rl.quantize_per_tensor(zeros, *known)
    return rl.cat([value, zeros], dim=1)


class MultiheadAttention(nn.MultiheadAttention):
    """`nn.MultiheadAttention` of parts that observers see.

    Scores and their products with values stay numbers; projections become integers.

    Args:
        embed_dim: features of the queries and of the output.
        num_heads: number of heads; they share ``embed_dim``.
        dropout: probability of dropping an attention weight.
        bias: whether the projections have biases.
        add_bias_kv: add a learned key and value to every sequence.
        add_zero_attn: add a key and value of zeros to every sequence.
        kdim, vdim: features of keys and values; ``embed_dim`` where left out.
        batch_first: whether inputs are ``(N, L, E)``, not ``(L, N, E)``.
        device, dtype: of the parameters.

    >>> x = rl.ones(3, 2, 8)
    >>> out, weights = MultiheadAttention(8, 2)(x, x, x)
    >>> out.shape, weights.shape
    (rushlight.Size([3, 2, 8]), rushlight.Size([2, 3, 3]))
    """

    _FLOAT_MODULE = nn.MultiheadAttention
    __constants__ = ["batch_first"]

    @functools.wraps(nn.MultiheadAttention.__init__)
    def __init__(self, *args, **settings):
        super().__init__(*args, **settings)
        kept = self.out_proj
        options = {"device": kept.weight.device, "dtype": kept.weight.dtype}
        options["bias"] = kept.bias is not None
        self.linear_Q = nn.Linear(self.embed_dim, self.embed_dim, **options)
        self.linear_K = nn.Linear(self.kdim, self.embed_dim, **options)
        self.linear_V = nn.Linear(self.vdim, self.embed_dim, **options)
        self.out_proj = nn.Linear(self.embed_dim, self.embed_dim, **options)
        self.q_scaling_product = FloatFunctional()
        self.quant_attn_output = QuantStub()
        self.quant_attn_output_weights = QuantStub()
        self.dequant_q, self.dequant_k = DeQuantStub(), DeQuantStub()
        self.dequant_v = DeQuantStub()

    def _get_name(self):
        return "QuantizableMultiheadAttention"

    def _inputs(self):
        return self.linear_Q, self.linear_K, self.linear_V

    @classmethod
    def from_float(cls, other):
        """An observed module made of an `nn.MultiheadAttention` with ``qconfig``.

        Raises:
            AssertionError: it is another module, or has none.
        """
        _require(
            type(other) is cls._FLOAT_MODULE,
            f"Expected type {cls._FLOAT_MODULE}, got {type(other)}",
        )
        _require(hasattr(other, "qconfig"), "The float module must have 'qconfig'")
        biases, size = other.in_proj_bias, other.embed_dim
        found = cls(
            size, other.num_heads, other.dropout, biases is not None,
            other.bias_k is not None, other.add_zero_attn, other.kdim, other.vdim,
            other.batch_first,
        )  # fmt: skip
        for name in ("bias_k", "bias_v", "qconfig"):
            setattr(found, name, getattr(other, name))
        found.out_proj.weight = other.out_proj.weight
        found.out_proj.bias = other.out_proj.bias
        if other._qkv_same_embed_dim:
            weights = other.in_proj_weight.split(size)
        else:
            weights = other.q_proj_weight, other.k_proj_weight, other.v_proj_weight
        parts = [None] * 3 if biases is None else biases.split(size)
        for layer, weight, bias in zip(found._inputs(), weights, parts):
            layer.weight = nn.Parameter(weight, weight.requires_grad)
            layer.bias = (
                None if bias is None else nn.Parameter(bias, bias.requires_grad)
            )
        return prepare(found.eval(), inplace=True)

    def dequantize(self):
        """The module of numbers that stands for a converted one: its weights as numbers."""
        projections = [layer._weight_bias() for layer in self._inputs()]
        found = self._FLOAT_MODULE(
            self.embed_dim, self.num_heads, self.dropout, projections[0][1] is not None,
            self.bias_k is not None, self.add_zero_attn, self.kdim, self.vdim,
            self.batch_first,
        )  # fmt: skip
        for name in ("bias_k", "bias_v"):
            given = getattr(self, name)
            if given is not None:
                setattr(found, name, nn.Parameter(given.dequantize()))
        weight, bias = self.out_proj._weight_bias()
        found.out_proj.weight = nn.Parameter(weight.dequantize())
        if bias is not None:
            found.out_proj.bias = nn.Parameter(bias)
        weights = [weight.dequantize() for weight, _ in projections]
        if found._qkv_same_embed_dim:
            found.in_proj_weight = nn.Parameter(rl.cat(weights))
        else:
            for name, weight in zip("qkv", weights):
                setattr(found, f"{name}_proj_weight", nn.Parameter(weight))
        if found.in_proj_bias is not None:
            biases = rl.cat([bias.detach() for _, bias in projections])
            found.in_proj_bias = nn.Parameter(biases)
        return found

    @classmethod
    def from_observed(cls, other):
        """Refuses: `nn.quantized.MultiheadAttention` is made of an observed one."""
        raise NotImplementedError(
            "It looks like you are trying to prepare an MHA module. Please, see the "
            "examples on quantizable MHAs."
        )

    def forward(
        self, query, key, value, key_padding_mask=None, need_weights=True,
        attn_mask=None, average_attn_weights=True, is_causal=False,
    ):  # fmt: skip
        """What `nn.MultiheadAttention` gives, and its weights.

        Args:
            query, key, value: ``(L, N, E)``, ``(S, N, kdim)`` and ``(S, N, vdim)``, or
                samples first.
            key_padding_mask: true where keys are hidden, ``(N, S)``.
            need_weights: whether weights are returned.
            attn_mask: true where keys are hidden, or numbers that are added.
            average_attn_weights: whether weights are the mean over heads.
            is_causal: refused.

        Raises:
            AssertionError: sizes do not go together.
        """
        _require(
            attn_mask is None or not is_causal, "Only allow causal mask or attn_mask"
        )
        _require(not is_causal, "causal mask not supported by AO MHA module")
        if self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        self._check(query, key, value)
        length, samples, _ = query.size()
        if attn_mask is not None:
            sizes = samples, self.num_heads, length, key.size(0)
            attn_mask = _sized(attn_mask, *sizes)
        masks = _Masks(attn_mask, key_padding_mask)
        parts = self._projected(query, key, value, masks)
        masks.check(samples, parts[1].size(1))
        if self.add_zero_attn:
            parts = [parts[0], *map(_with_zeros, parts[1:])]
            masks.widen()
        q, k, v = self.dequant_q(parts[0]), self.dequant_k(parts[1]), parts[2]
        v = self.dequant_v(v)
        scores = masks.apply(rl.bmm(q, k.transpose(1, 2)), samples)
        weights = F.dropout(F.softmax(scores, dim=-1), self.dropout, self.training)
        found = rl.bmm(weights, v)
        if (
            self.batch_first
        ):  # as PyTorch has it, which reads the heads' rows as samples'
            found = found.view(samples, length, self.embed_dim)
        else:
            found = found.transpose(0, 1).contiguous()
            found = found.view(length, samples, self.embed_dim)
        found = self.out_proj(self.quant_attn_output(found))
        weights = self.quant_attn_output_weights(weights)
        if not need_weights:
            return found, None
        weights = weights.view(samples, self.num_heads, length, k.size(1))
        return found, weights.mean(dim=1) if average_attn_weights else weights

    def _check(self, query, key, value):
        size = query.size(2)
        _require(
            self.embed_dim == size, f"embed_dim mismatch: {self.embed_dim} != {size}"
        )
        _require(
            key.size()[:2] == value.size()[:2],
            f"key and value size mismatch: key.size()={key.size()}, "
            f"value.size()={value.size()}",
        )

    def _projected(self, query, key, value, masks):
        """Queries, keys and values by heads, ``[samples * heads, length, features]``."""
        q, k, v = self.linear_Q(query), self.linear_K(key), self.linear_V(value)
        q = self.q_scaling_product.mul_scalar(q, float(self.head_dim) ** -0.5)
        _require(
            (self.bias_k is None) == (self.bias_v is None),
            "self.bias_k and self.bias_v must both be None or both have values",
        )
        samples = query.size(1)
        if self.bias_k is not None:
            k = rl.cat([k, self.bias_k.repeat(1, samples, 1)])
            v = rl.cat([v, self.bias_v.repeat(1, samples, 1)])
            masks.widen()
        rows = samples * self.num_heads, self.head_dim
        return [e.contiguous().view(-1, *rows).transpose(0, 1) for e in (q, k, v)]
