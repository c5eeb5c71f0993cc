"""The transformer of "Attention Is All You Need"."""

import copy

import rushlight as rl
from rushlight.core.state import is_following
from rushlight.core.warning import warn
from rushlight.graph.export_state import recording_export
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules.activation import GELU, ReLU
from rushlight.nn.modules.attention import MultiheadAttention
from rushlight.nn.modules.container import ModuleList
from rushlight.nn.modules.dropout import Dropout
from rushlight.nn.modules.linear import Linear
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.normalization import LayerNorm

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
]


def _get_activation_fn(activation):
    if activation == "relu":
        return F.relu
    if activation == "gelu":
        return F.gelu
    raise RuntimeError(f"activation should be relu/gelu, not {activation}")


def _get_clones(module, count):
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


def _is_causal(layer, mask, hint, rows):
    """What layers are told of a mask: what the caller says, or else what it is.

    Args:
        layer: the first of them.
        mask: the mask, or None.
        hint: whether the mask is causal; None where the caller doesn't say.
        rows: the tensor that is masked.
    """
    if hint is not None or mask is None:
        return bool(hint)
    if is_following() or recording_export():  # elements would end the recording
        return False
    along = rows.dim() == 3 and layer.self_attn.batch_first
    size = rows.size(int(along))
    if mask.shape != (size, size):
        return False
    causal = Transformer.generate_square_subsequent_mask(size, mask.device, mask.dtype)
    return bool((mask == causal).all())


class _Layer(Module):
    """What the layers of encoder and decoder share: the feed-forward part."""

    __constants__ = ["norm_first"]
    _attentions = ()

    def __init__(
        self,
        d_model,
        nhead,
        dim_feedforward=2048,
        dropout=0.1,
        activation=F.relu,
        layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        options = {"device": device, "dtype": dtype}
        for name in self._attentions:
            attention = MultiheadAttention(
                d_model,
                nhead,
                dropout=dropout,
                bias=bias,
                batch_first=batch_first,
                **options,
            )
            setattr(self, name, attention)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **options)
        self.norm_first = norm_first
        parts = range(1, len(self._attentions) + 2)
        for part in parts:
            norm = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **options)
            setattr(self, f"norm{part}", norm)
        for part in parts:
            setattr(self, f"dropout{part}", Dropout(dropout))
        self.activation = (
            _get_activation_fn(activation)
            if isinstance(activation, str)
            else activation
        )

    def _feed_forward(self, x):
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def _attend(self, attention, x, memory, mask, padding, is_causal):
        return attention(
            x,
            memory,
            memory,
            attn_mask=mask,
            key_padding_mask=padding,
            is_causal=is_causal,
            need_weights=False,
        )[0]


class TransformerEncoderLayer(_Layer):
    """Self-attention, then a feed-forward network, each with a way around it.

    Args:
        d_model: features of input and output.
        nhead: number of heads.
        dim_feedforward: features inside the feed-forward network.
        dropout: probability of dropping an element.
        activation: ``"relu"``, ``"gelu"`` or a function.
        layer_norm_eps: ``eps`` of the normalisations.
        batch_first: whether inputs are ``(N, L, E)``, not ``(L, N, E)``.
        norm_first: whether to normalise before each part instead of after.
        bias: whether linear maps and normalisations have biases.
    """

    _attentions = ("self_attn",)

    def forward(self, src, src_mask=None, src_key_padding_mask=None, is_causal=False):
        src_key_padding_mask = F._canonical_mask(
            src_key_padding_mask,
            "src_key_padding_mask",
            F._none_or_dtype(src_mask),
            "src_mask",
            src.dtype,
        )
        src_mask = F._canonical_mask(
            src_mask, "src_mask", None, "", src.dtype, check_other=False
        )

        def attend(x):
            return self.dropout1(
                self._attend(
                    self.self_attn, x, x, src_mask, src_key_padding_mask, is_causal
                )
            )

        def feed(x):
            return self.dropout2(self._feed_forward(x))

        x = src
        if self.norm_first:
            x = x + attend(self.norm1(x))
            return x + feed(self.norm2(x))
        x = self.norm1(x + attend(x))
        return self.norm2(x + feed(x))


class TransformerDecoderLayer(_Layer):
    """Self-attention, attention to a memory, then a feed-forward network.

    Arguments as in ``TransformerEncoderLayer``.

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias: as in ``TransformerEncoderLayer``.

    >>> layer = TransformerDecoderLayer(4, 2, 8, batch_first=True)
    >>> layer(rl.ones(1, 3, 4), rl.ones(1, 5, 4)).shape
    rushlight.Size([1, 3, 4])
    """

    _attentions = "self_attn", "multihead_attn"

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=False,
        memory_is_causal=False,
    ):
        def attend(x):
            return self.dropout1(
                self._attend(
                    self.self_attn, x, x, tgt_mask, tgt_key_padding_mask, tgt_is_causal
                )
            )

        def recall(x):
            return self.dropout2(
                self._attend(
                    self.multihead_attn,
                    x,
                    memory,
                    memory_mask,
                    memory_key_padding_mask,
                    memory_is_causal,
                )
            )

        def feed(x):
            return self.dropout3(self._feed_forward(x))

        x = tgt
        if self.norm_first:
            x = x + attend(self.norm1(x))
            x = x + recall(self.norm2(x))
            return x + feed(self.norm3(x))
        x = self.norm1(x + attend(x))
        x = self.norm2(x + recall(x))
        return self.norm3(x + feed(x))


def _why_not_nested(layer):
    """Why PyTorch would not leave out what is padded, or nothing where it would."""
    if not isinstance(layer, TransformerEncoderLayer):
        return "encoder_layer was not TransformerEncoderLayer"
    attention = layer.self_attn
    if layer.norm_first:
        return "encoder_layer.norm_first was True"
    if not attention.batch_first:
        return (
            "encoder_layer.self_attn.batch_first was not True(use batch_first for better "
            "inference performance)"
        )
    if not attention._qkv_same_embed_dim:
        return "encoder_layer.self_attn._qkv_same_embed_dim was not True"
    if attention.in_proj_bias is None:
        return "encoder_layer.self_attn was passed bias=False"
    known = F.relu, F.gelu
    if layer.activation not in known and not isinstance(layer.activation, (ReLU, GELU)):
        return "encoder_layer.activation_relu_or_gelu was not True"
    if layer.norm1.eps != layer.norm2.eps:
        return "encoder_layer.norm1.eps was not equal to encoder_layer.norm2.eps"
    return "encoder_layer.self_attn.num_heads is odd" if attention.num_heads % 2 else ""


class TransformerEncoder(Module):
    """Several copies of an encoder layer on top of one another.

    Args:
        encoder_layer: the layer that is copied.
        num_layers: number of copies.
        norm: a normalisation of the result.
    """

    __constants__ = ["norm"]

    def __init__(
        self,
        encoder_layer,
        num_layers,
        norm=None,
        enable_nested_tensor=True,
        mask_check=True,
    ):
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        reason = enable_nested_tensor and _why_not_nested(encoder_layer)
        if reason:
            warn(
                "enable_nested_tensor is True, but self.use_nested_tensor is False because "
                f"{reason}"
            )
        self.use_nested_tensor = bool(enable_nested_tensor and not reason)
        self.mask_check = mask_check

    def forward(self, src, mask=None, src_key_padding_mask=None, is_causal=None):
        src_key_padding_mask = F._canonical_mask(
            src_key_padding_mask,
            "src_key_padding_mask",
            F._none_or_dtype(mask),
            "mask",
            src.dtype,
        )
        mask = F._canonical_mask(mask, "mask", None, "", src.dtype, check_other=False)
        is_causal = _is_causal(self.layers[0], mask, is_causal, src)
        output = src
        for layer in self.layers:
            output = layer(
                output,
                src_mask=mask,
                is_causal=is_causal,
                src_key_padding_mask=src_key_padding_mask,
            )
        if mask is None and src_key_padding_mask is not None and self._leaves_out(src):
            output = output.masked_fill(_trailing_padding(src_key_padding_mask), 0.0)
        return output if self.norm is None else self.norm(output)

    def _leaves_out(self, src):
        """Whether PyTorch would compute without what is padded, and give zeros for it."""
        first = self.layers[0]
        if not self.use_nested_tensor or first.training or src.dim() != 3:
            return False
        if recording_export() or rl.is_autocast_enabled(src.device.type):
            return False
        if not rl.backends.mha.get_fastpath_enabled():
            return False
        given = (src, *first.parameters())
        return not (rl.is_grad_enabled() and any(one.requires_grad for one in given))


def _trailing_padding(padding):
    """Which positions are padded, for each feature; none where some lie before others."""
    kept = padding == 0
    aligned = (kept[:, 1:] <= kept[:, :-1]).all()
    return (~kept & aligned).unsqueeze(-1)


class TransformerDecoder(Module):
    """Several copies of a decoder layer on top of one another.

    Args:
        decoder_layer: the layer that is copied.
        num_layers: number of copies.
        norm: a normalisation of the result.
    """

    __constants__ = ["norm"]

    def __init__(self, decoder_layer, num_layers, norm=None):
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt,
        memory,
        tgt_mask=None,
        memory_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        tgt_is_causal = _is_causal(self.layers[0], tgt_mask, tgt_is_causal, tgt)
        output = tgt
        for layer in self.layers:
            output = layer(
                output,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal,
                memory_is_causal=memory_is_causal,
            )
        return output if self.norm is None else self.norm(output)


class Transformer(Module):
    """An encoder and a decoder.

    Args:
        d_model: features of the inputs.
        nhead: number of heads.
        num_encoder_layers, num_decoder_layers: how many layers each has.
        dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first,
            bias: as in ``TransformerEncoderLayer``.
        custom_encoder, custom_decoder: modules to use instead.
    """

    def __init__(
        self,
        d_model=512,
        nhead=8,
        num_encoder_layers=6,
        num_decoder_layers=6,
        dim_feedforward=2048,
        dropout=0.1,
        activation=F.relu,
        custom_encoder=None,
        custom_decoder=None,
        layer_norm_eps=1e-5,
        batch_first=False,
        norm_first=False,
        bias=True,
        device=None,
        dtype=None,
    ):
        super().__init__()
        options = {"device": device, "dtype": dtype}
        shared = (
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
        )
        norm = {"eps": layer_norm_eps, "bias": bias, **options}
        if custom_encoder is not None:
            self.encoder = custom_encoder
        else:
            self.encoder = TransformerEncoder(
                TransformerEncoderLayer(*shared, **options),
                num_encoder_layers,
                LayerNorm(d_model, **norm),
            )
        if custom_decoder is not None:
            self.decoder = custom_decoder
        else:
            self.decoder = TransformerDecoder(
                TransformerDecoderLayer(*shared, **options),
                num_decoder_layers,
                LayerNorm(d_model, **norm),
            )
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src,
        tgt,
        src_mask=None,
        tgt_mask=None,
        memory_mask=None,
        src_key_padding_mask=None,
        tgt_key_padding_mask=None,
        memory_key_padding_mask=None,
        src_is_causal=None,
        tgt_is_causal=None,
        memory_is_causal=False,
    ):
        batched = src.dim() == 3
        dim = 0 if self.batch_first else 1
        if batched and src.size(dim) != tgt.size(dim):
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.size(-1) != self.d_model or tgt.size(-1) != self.d_model:
            raise RuntimeError(
                "the feature number of src and tgt must be equal to d_model"
            )
        memory = self.encoder(
            src,
            mask=src_mask,
            src_key_padding_mask=src_key_padding_mask,
            is_causal=src_is_causal,
        )
        return self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )

    @staticmethod
    def generate_square_subsequent_mask(sz, device=None, dtype=None):
        """A mask with minus infinity where a position must not be seen."""
        full = rl.full((sz, sz), float("-inf"), device=device, dtype=dtype)
        return full.triu(diagonal=1)

    def _reset_parameters(self):
        for parameter in self.parameters():
            if parameter.dim() > 1:
                init.xavier_uniform_(parameter)
