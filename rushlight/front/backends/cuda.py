"""Switches of PyTorch's CUDA backend; those without a word of their own change nothing."""

import contextlib
import enum

from rushlight.backends._switches import checked_precision
from rushlight.core.state import Scope
from rushlight.core.switches import set_switch, switch
from rushlight.core.truth import truth_of_switch
from rushlight.core.warning import warn

__all__ = [
    "SDPAParams",
    "SDPBackend",
    "allow_fp16_bf16_reduction_math_sdp",
    "can_use_cudnn_attention",
    "can_use_efficient_attention",
    "can_use_flash_attention",
    "cudnn_sdp_enabled",
    "cufft_plan_cache",
    "enable_cudnn_sdp",
    "enable_flash_sdp",
    "enable_math_sdp",
    "enable_mem_efficient_sdp",
    "flash_sdp_enabled",
    "fp16_bf16_reduction_math_sdp_allowed",
    "is_built",
    "is_flash_attention_available",
    "math_sdp_enabled",
    "matmul",
    "mem_efficient_sdp_enabled",
    "preferred_blas_library",
    "preferred_linalg_library",
    "sdp_kernel",
]


def is_built():
    """Whether the backend is there: no."""
    return False


class cuBLASModule:
    """How a GPU multiplies matrices."""

    allow_fp16_accumulation = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    _word = "none"

    def __setattr__(self, name, value):
        if not hasattr(type(self), name):
            raise AttributeError(f"Unknown attribute {name}")
        if name in ("allow_tf32", "allow_fp16_accumulation"):
            truth_of_switch(f"set_{name}_cublas", value)
        elif name.endswith("_reduced_precision_reduction"):
            value = _reduced(name, value)
        super().__setattr__(name, value)

    @property
    def allow_tf32(self):
        """Whether factors may be rounded to ten digits after the point."""
        from rushlight import _runtime_flags

        return _runtime_flags.get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, allowed):
        from rushlight import _runtime_flags

        self._word = "tf32" if allowed else "ieee"
        _runtime_flags.set_float32_matmul_precision("high" if allowed else "highest")

    @property
    def fp32_precision(self):
        """The same as a word: ``tf32``, ``ieee``, or ``none`` where nothing was said."""
        return "tf32" if self.allow_tf32 else self._word

    @fp32_precision.setter
    def fp32_precision(self, word):
        self.allow_tf32 = checked_precision("cuda", word) == "tf32"
        self._word = word


def _reduced(name, value):
    """Whether sums may be of a narrower type: a truth value, or that and one for splits."""
    if isinstance(value, bool):
        return value
    if not isinstance(value, (tuple, list)) or not all(
        isinstance(one, bool) for one in value
    ):
        raise TypeError(
            f"{name} expects a bool or a tuple/list of bools, but got {type(value)}"
        )
    if not 1 <= len(value) <= 2:
        raise TypeError(f"{name} expects at most two boolean arguments")
    if value[0] and not value[-1]:
        raise RuntimeError(
            "allow_splitk=False is not supported when reduced precision reductions are "
            "enabled"
        )
    return value[0]


matmul = cuBLASModule()


class cuFFTPlanCacheManager:
    """The plans of a GPU's transforms: none."""

    size = 0
    max_size = 0

    def clear(self):
        """Nothing: there are none."""

    def __getitem__(self, device):
        raise RuntimeError(
            f"cufft_plan_cache: expected 0 <= device index < 0, but got device index {device}"
        )


cufft_plan_cache = cuFFTPlanCacheManager()
_other = {"reduction": False}


def flash_sdp_enabled():
    """Whether attention may use the flash kernel of a GPU."""
    return bool(switch("flash_sdp"))


def enable_flash_sdp(enabled):
    """Says whether it may."""
    set_switch("flash_sdp", int(truth_of_switch("set_sdp_use_math", enabled)))


def mem_efficient_sdp_enabled():
    """Whether attention may use the memory-efficient kernel of a GPU."""
    return bool(switch("mem_efficient_sdp"))


def enable_mem_efficient_sdp(enabled):
    """Says whether it may."""
    set_switch("mem_efficient_sdp", int(truth_of_switch("set_sdp_use_math", enabled)))


def math_sdp_enabled():
    """Whether attention may be computed step by step."""
    return bool(switch("math_sdp"))


def enable_math_sdp(enabled):
    """Says whether it may."""
    set_switch("math_sdp", int(truth_of_switch("set_sdp_use_math", enabled)))


def cudnn_sdp_enabled():
    """Whether attention may use cuDNN."""
    return bool(switch("cudnn_sdp"))


def enable_cudnn_sdp(enabled):
    """Says whether it may."""
    set_switch("cudnn_sdp", int(truth_of_switch("set_sdp_use_cudnn", enabled)))


def fp16_bf16_reduction_math_sdp_allowed():
    """Whether attention step by step may sum in short types."""
    return _other["reduction"]


def allow_fp16_bf16_reduction_math_sdp(enabled):
    """Says whether it may."""
    _other["reduction"] = truth_of_switch("set_sdp_use_math", enabled)


class SDPBackend(enum.IntEnum):
    """Ways to compute attention, as PyTorch counts them.

    Args:
        value: the number.

    >>> SDPBackend.MATH.value
    0
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


class SDPAParams:
    """Operands of attention, of which a kernel says whether it takes them."""

    def __init__(self, query, key, value, attn_mask, dropout, is_causal, enable_gqa):
        self.query, self.key, self.value = query, key, value
        self.attn_mask, self.dropout = attn_mask, dropout
        self.is_causal, self.enable_gqa = is_causal, enable_gqa


def _is_never_used(params, debug=False):
    if not isinstance(params, SDPAParams):
        raise TypeError(f"params must be SDPAParams, not {type(params).__name__}")
    return False


def can_use_flash_attention(params, debug=False):
    """Whether attention of such operands takes the flash kernel of a GPU: no."""
    return _is_never_used(params, debug)


def can_use_efficient_attention(params, debug=False):
    """Whether it takes the memory-efficient kernel of a GPU: no."""
    return _is_never_used(params, debug)


def can_use_cudnn_attention(params, debug=False):
    """Whether it takes cuDNN's kernel: no."""
    return _is_never_used(params, debug)


def is_flash_attention_available():
    """Whether the flash kernel of a GPU is there: no."""
    return False


class allowed_kernels(Scope, contextlib.ContextDecorator):
    """A block in which attention may use the kernels that are named as true."""

    def __init__(self, **kinds):
        self.kinds = kinds

    def _save(self):
        self.earlier = {kind: switch(f"{kind}_sdp") for kind in self.kinds}

    def _change(self):
        for kind, may in self.kinds.items():
            set_switch(f"{kind}_sdp", int(bool(may)))
        return {}

    def _restore(self):
        for kind, may in self.earlier.items():
            set_switch(f"{kind}_sdp", may)


def sdp_kernel(
    enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True
):
    """A block in which attention may use some kernels of a GPU only."""
    warn(
        "`torch.backends.cuda.sdp_kernel()` is deprecated. In the future, this context "
        "manager will be removed. Please see `torch.nn.attention.sdpa_kernel()` for the "
        "new context manager, with updated signature.",
        FutureWarning,
    )
    return allowed_kernels(
        flash=enable_flash,
        math=enable_math,
        mem_efficient=enable_mem_efficient,
        cudnn=enable_cudnn,
    )


class _LinalgBackend(enum.Enum):
    """Libraries for linear algebra on a GPU."""

    Default = 0
    Cusolver = 1
    Magma = 2


class _BlasBackend(enum.Enum):
    """Libraries for matrix products on a GPU."""

    Default = 3
    Cublas = 0
    Cublaslt = 1
    Ck = 2


_libraries: dict = {"linalg": _LinalgBackend.Default, "blas": _BlasBackend.Default}


def _prefer(kind, members, backend):
    if isinstance(backend, str):
        known = {member.name.lower(): member for member in members}
        if backend.lower() not in known:
            raise RuntimeError(f"Unknown input value. Choose from: {', '.join(known)}.")
        backend = known[backend.lower()]
    if backend is not None:
        if not isinstance(backend, members):
            raise RuntimeError("Unknown input value type.")
        _libraries[kind] = backend
    return _libraries[kind]


def preferred_linalg_library(backend=None):
    """The library for linear algebra on a GPU; given one, chooses it."""
    return _prefer("linalg", _LinalgBackend, backend)


def preferred_blas_library(backend=None):
    """The library for matrix products on a GPU; given one, chooses it."""
    return _prefer("blas", _BlasBackend, backend)
