"""The rule of each operator, by its name without overload: one table.

Operators that are declared pointwise need no row, unless shares of a sum may go through
them. What has no rule is computed whole by every rank.
"""

from __future__ import annotations

from rushlight.distributed.tensor import _sharding_rules as rules
from rushlight.distributed.tensor import _view_rules as views

__all__ = ["RULES", "SIZED"]

ELEMENTS = rules.pointwise()
LINEAR = rules.pointwise("all")
BILINEAR = rules.pointwise("one")
SCALED = rules.pointwise("first")
LAST = rules.along("dim")


def _rows(rule, names):
    return dict.fromkeys(names.split(), rule)


RULES = {
    # elements, beside what is declared to go by them
    **_rows(ELEMENTS, "threshold_backward leaky_relu_backward dropout"),
    **_rows(LINEAR, "add sub copy_ add_ sub_"),
    **_rows(BILINEAR, "mul mul_"),
    **_rows(
        SCALED,
        """
        div div_ neg neg_ clone detach alias lift_fresh contiguous _to_copy to
        _conj real imag view_as_real positive
        """,
    ),
    **_rows(
        rules.follow,
        """
        new_empty new_zeros new_ones new_full new_empty_strided native_dropout
        zero_ fill_
        """,
    ),
    # dimensions that move
    **_rows(rules.mapped(views.transposed), "t t_ transpose transpose_ swapaxes"),
    **_rows(rules.mapped(views.permuted), "permute"),
    **_rows(rules.mapped(views.unsqueezed), "unsqueeze unsqueeze_"),
    **_rows(rules.mapped(views.squeezed), "squeeze squeeze_"),
    **_rows(rules.mapped(views.selected), "select unbind"),
    **_rows(rules.mapped(views.sliced), "slice narrow"),
    **_rows(rules.mapped(views.split), "split split_with_sizes chunk unsafe_split"),
    **_rows(rules.mapped(views.flipped), "flip roll"),
    **_rows(rules.mapped(views.expanded), "expand"),
    **_rows(rules.mapped(views.viewed), "view _unsafe_view reshape _reshape_alias"),
    "cat": rules.concatenation,
    "stack": rules.stack,
    # reductions
    "sum": rules.reduction("sum", linear=True),
    "mean": rules.reduction("avg", linear=True),
    **_rows(rules.reduction("max"), "amax any"),
    **_rows(rules.reduction("min"), "amin all"),
    "prod": rules.reduction("product"),
    "linalg_vector_norm": rules.reduction("norm"),
    **_rows(
        rules.reduction(),
        "argmax argmin var std logsumexp median mode nanmedian",
    ),
    **_rows(
        LAST,
        """
        _softmax _log_softmax _softmax_backward_data _log_softmax_backward_data
        cumsum cumprod cummax cummin logcumsumexp sort topk gather scatter scatter_add
        index_select
        """,
    ),
    # products
    "mm": rules.contraction("mk,kn->mn"),
    "addmm": rules.contraction("mk,kn->mn", added=True),
    "bmm": rules.contraction("bmk,bkn->bmn"),
    "baddbmm": rules.contraction("bmk,bkn->bmn", added=True),
    "mv": rules.contraction("mk,k->m"),
    "dot": rules.contraction("k,k->"),
    "outer": rules.contraction("m,n->mn"),
    # layers
    "native_layer_norm": rules.layer_norm,
    "native_layer_norm_backward": rules.layer_norm_backward,
    "embedding": rules.embedding,
    "embedding_dense_backward": rules.embedding_backward,
    "_scaled_dot_product_flash_attention_for_cpu": rules.attention,
    "_scaled_dot_product_flash_attention_for_cpu_backward": rules.attention,
}
# Operators whose argument has the sizes of the result: a rank gives its part's.
SIZED = {
    **_rows(
        "size",
        """
        view _unsafe_view reshape _reshape_alias expand new_empty new_zeros new_ones
        new_full new_empty_strided
        """,
    )
}
