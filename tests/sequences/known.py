"""What a mode or a subclass sees otherwise than in PyTorch, and why."""

_STEPS = "a composition that goes by other steps here"
_OPERATORS = (
    "fft.hfft",
    "fft.hfft2",
    "fft.hfftn",
    "istft",
    "linalg.matrix_rank",
    "masked.std",
    "masked.var",
    "nanquantile",
    "nn.functional.embedding_bag",
    "nn.functional.instance_norm",
    "nn.functional.logsigmoid",
    "nn.functional.multilabel_margin_loss",
    "nn.functional.multilabel_soft_margin_loss",
    "nn.functional.rrelu",
    "quantile",
    "stft",
    "to_sparse",
    "unique_consecutive",
)

KNOWN = {
    **{("operator", name): _STEPS for name in _OPERATORS},
    ("wrapper", "write a number"): "a number that is written stays a number",
    ("model", "lstm"): "the layer is one operator there, of a library for recurrences",
}
