"""What functions of ``nn.functional`` are given, for readers of annotations."""

from collections.abc import Callable

from rushlight.core.dtype import DType
from rushlight.core.tensor import Tensor

_SIZES = int | list[int] | tuple[int, ...]
_PAIR = tuple[Tensor, Tensor]

# A type, and the parameters that have it wherever they stand.
_PARAMETERS = (
    (
        Tensor,
        """
        anchor grid indices input input1 input2 input_lengths key log_probs logits mat_a
        mat_b negative out_proj_weight positive query target target_lengths targets theta
        return
        """,
    ),
    (
        Tensor | None,
        """
        _random_samples attn_mask bias bias_k bias_v in_proj_bias in_proj_weight
        k_proj_weight key_padding_mask linear_bias offs offsets out out_proj_bias
        per_sample_weights pos_weight q_proj_weight running_mean running_var static_k
        static_v v_proj_weight weight
        """,
    ),
    (
        bool,
        """
        add_zero_attn antialias average_attn_weights ceil_mode full hard
        include_last_offset inplace is_causal log_input log_target need_weights
        return_indices scale_grad_by_freq sparse swap training use_fast_accum
        use_input_stats use_separate_proj_weight zero_infinity
        """,
    ),
    (bool | None, "align_corners recompute_scale_factor reduce size_average"),
    (
        int,
        """
        _stacklevel blank dim embed_dim_to_check ignore_index num_groups num_heads
        """,
    ),
    (int | None, "dtype padding_idx"),
    (
        float,
        """
        alpha beta delta dropout_p eps k label_smoothing lower margin max_val min_val
        momentum negative_slope p tau threshold upper
        """,
    ),
    (float | None, "max_norm"),
    (int | float, "norm_type"),
    (str, "mode padding_mode reduction"),
    (DType | None, "out_dtype output_dtype"),
    (list[int], "normalized_shape pad"),
    (list[int] | tuple[int, ...], "contraction_dim"),
    (list[float] | None, "scale_factor"),
    (Tensor | float, "var"),
    (Tensor | list[Tensor], "scale_a scale_b"),
    (Callable[[Tensor, Tensor], Tensor] | None, "distance_function"),
    (_SIZES, "dilation kernel_size padding"),
    (_SIZES | None, "output_size stride"),
    (float | list[float] | tuple[float, ...] | None, "output_ratio"),
)

# Where a parameter of a function is of another type than that of others.
_EXCEPTIONS = {
    ("adaptive_avg_pool2d", "output_size"): _SIZES,
    ("adaptive_avg_pool3d", "output_size"): _SIZES,
    ("affine_grid", "size"): list[int],
    ("embedding", "norm_type"): float,
    ("embedding", "weight"): Tensor,
    ("embedding_bag", "norm_type"): float,
    ("embedding_bag", "weight"): Tensor,
    ("fold", "output_size"): _SIZES,
    ("fold", "stride"): _SIZES,
    ("interpolate", "size"): int | None,
    ("linear_cross_entropy", "ignore_index"): int | None,
    ("linear_cross_entropy", "linear_weight"): Tensor,
    ("local_response_norm", "size"): int,
    ("log_softmax", "dim"): int | None,
    ("lp_pool1d", "kernel_size"): int,
    ("multi_head_attention_forward", "return"): tuple[Tensor, Tensor | None],
    ("multi_head_attention_forward", "value"): Tensor,
    ("multi_margin_loss", "p"): int,
    ("pad", "value"): float | None,
    ("rms_norm", "eps"): float | None,
    ("softmax", "dim"): int | None,
    ("softmin", "dim"): int | None,
    ("threshold", "value"): float,
    ("unfold", "stride"): _SIZES,
}
_TYPES = {name: kind for kind, names in _PARAMETERS for name in names.split()}


def annotate(functions):
    """Gives functions without annotations those of their parameters.

    Args:
        functions: by name.
    """
    for name, function in functions.items():
        if function.__annotations__:
            continue
        code = function.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        for parameter in (*code.co_varnames[:count], "return"):
            kind = _EXCEPTIONS.get((name, parameter), _TYPES.get(parameter))
            if kind is not None:
                function.__annotations__[parameter] = kind
        if name.endswith("_with_indices"):
            function.__annotations__["return"] = _PAIR
        elif "return_indices" in function.__annotations__:
            function.__annotations__["return"] = Tensor | _PAIR
