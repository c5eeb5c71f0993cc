"""What a mode or a subclass sees otherwise than in PyTorch, and why."""

_STEPS = "a composition that goes by other steps here"
_LAYOUT = "what attention gives lies in memory otherwise"
_STEP = (
    "the optimizer's step is one kernel, and no profiler's operators stand around it"
)

_OPERATORS = (
    "cdist",
    "clamp",
    "combinations",
    "corrcoef",
    "cov",
    "cumulative_trapezoid",
    "diff",
    "fft.hfft",
    "fft.hfft2",
    "fft.hfftn",
    "fft.ihfft2",
    "fft.ihfftn",
    "histogramdd",
    "isclose",
    "istft",
    "linalg.cond",
    "linalg.eigvals",
    "linalg.matrix_power",
    "linalg.matrix_rank",
    "linalg.pinv",
    "linalg.vander",
    "masked.std",
    "masked.var",
    "nanmean",
    "nanquantile",
    "nn.functional.bilinear",
    "nn.functional.cosine_embedding_loss",
    "nn.functional.ctc_loss",
    "nn.functional.embedding_bag",
    "nn.functional.grid_sample",
    "nn.functional.hinge_embedding_loss",
    "nn.functional.instance_norm",
    "nn.functional.kl_div",
    "nn.functional.logsigmoid",
    "nn.functional.margin_ranking_loss",
    "nn.functional.multilabel_margin_loss",
    "nn.functional.multilabel_soft_margin_loss",
    "nn.functional.one_hot",
    "nn.functional.pad",
    "nn.functional.pairwise_distance",
    "nn.functional.poisson_nll_loss",
    "nn.functional.prelu",
    "nn.functional.rrelu",
    "nn.functional.scaled_dot_product_attention",
    "nn.functional.triplet_margin_loss",
    "quantile",
    "stft",
    "take_along_dim",
    "to_sparse",
    "trapezoid",
    "trapz",
    "unique_consecutive",
)

KNOWN = {
    **{("operator", name): _STEPS for name in _OPERATORS},
    **{
        ("wrapper", name): _STEPS
        for name in ("bilinear", "einsum", "einsum of batches", "pairwise_distance")
    },
    ("wrapper", "write a number"): "a number that is written stays a number",
    **{
        ("model", name): _STEPS
        for name in ("bilinear", "gru", "lstm", "products", "rnn", "attention")
    },
    **{("model", name): _LAYOUT for name in ("encoder", "sdpa")},
    **{("model", name): _STEP for name in ("sgd", "adam", "adamw")},
}
