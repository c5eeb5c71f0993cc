"""What nodes are called where PyTorch has several operators for one here (`node:`)."""

_RESAMPLED = {
    "bilinear": "Bilinear", "trilinear": "Trilinear", "bicubic": "Bicubic",
    "lanczos": "Lanczos", "nearest": "Nearest", "nearest-exact": "NearestExact",
}  # fmt: skip
_PADDED = {"reflect": "Reflection", "replicate": "Replication", "circular": "Circular"}


def linear(node):
    """A product of matrices, or of what is flattened to one."""
    biased = node.next_functions[2][0] is not None
    if len(node._input_metadata[0].shape) == 2:
        return "AddmmBackward0" if biased else "MmBackward0"
    return "ViewBackward0" if biased else "UnsafeViewBackward0"


def squeeze(node, dim):
    """Of one dimension, or of several."""
    return "SqueezeBackward1" if len(dim) == 1 else "SqueezeBackward2"


def nll_loss(node, target):
    """Of classes, or of the classes of places in an image."""
    return "NllLoss2DBackward0" if target.ndim > 1 else "NllLossBackward0"


def resample(node, sizes, mode, antialias):
    """By the way of resampling and the number of dimensions."""
    name = _RESAMPLED.get(mode, ["Linear", "Bilinear", "Trilinear"][len(sizes) - 1])
    suffix = "Aa" if antialias and not mode.startswith("nearest") else ""
    return f"Upsample{name}{len(sizes)}D{suffix}Backward0"


def pad(node, pad, mode):
    """By what is at the borders and the number of dimensions that have some."""
    return f"{_PADDED[mode]}Pad{len(pad) // 2}DBackward0"


def sample_grid(node):
    """By the number of dimensions of what is looked at."""
    return f"GridSampler{len(node._input_metadata[0].shape) - 2}DBackward0"


def rms_norm(node):
    """The last of what PyTorch composes it of on the host."""
    half = node._input_metadata[0].dtype.itemsize == 2
    return "ToCopyBackward0" if half else "MulBackward0"
