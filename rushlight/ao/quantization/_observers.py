"""Observers: what they have seen of values says by which scale these are quantized."""

import functools
import warnings
from abc import ABC, abstractmethod

import rushlight as rl
from rushlight.ao.quantization.utils import (
    calculate_qmin_qmax,
    is_per_channel,
    is_per_tensor,
    is_symmetric,
    qparams_between,
    validate_qmin_qmax,
)
from rushlight.nn import Module

EPS = 1.1920928955078125e-07  # of float32


class _PartialWrapper:
    """A class with arguments, and callables that are asked for more when it is called."""

    def __init__(self, p):
        self.p, self.callable_args = p, {}

    def __call__(self, *args, **keywords):
        for name, function in self.callable_args.items():
            if name not in keywords:
                keywords = {**keywords, name: function()}
        return self.p(*args, **keywords)

    def __repr__(self):
        return self.p.__repr__() + self.callable_args.__repr__()

    def with_args(self, **kwargs):
        """The same with more arguments."""
        return _with_args(self, **kwargs)

    def with_callable_args(self, **kwargs):
        """The same with functions that give more arguments."""
        found = _PartialWrapper(self.p)
        found.callable_args = {**self.callable_args, **kwargs}
        return found


def _with_args(cls_or_self, **kwargs):
    found = _PartialWrapper(functools.partial(cls_or_self, **kwargs))
    if isinstance(cls_or_self, _PartialWrapper):
        found.p = functools.partial(cls_or_self.p, **kwargs)
        found.callable_args = dict(cls_or_self.callable_args)
    return found


def _with_callable_args(cls_or_self, **kwargs):
    return _PartialWrapper(functools.partial(cls_or_self)).with_callable_args(**kwargs)


class ObserverBase(ABC, Module):
    """What all observers are.

    Args:
        dtype: that values are to be quantized to.
        is_dynamic: whether each value has a scale of its own when a model runs.
    """

    is_post_process = True

    def __init__(self, dtype, is_dynamic=False):
        super().__init__()
        self.dtype = dtype
        self.is_dynamic = is_dynamic

    @abstractmethod
    def forward(self, x):
        """Takes a value in and gives it back."""

    @abstractmethod
    def calculate_qparams(self, **kwargs):
        """Scale and zero point of what was seen."""

    with_args = classmethod(_with_args)
    with_callable_args = classmethod(_with_callable_args)


_SCHEMES = (
    "per_tensor_affine", "per_tensor_symmetric", "per_channel_affine",
    "per_channel_symmetric", "per_channel_affine_float_qparams",
)  # fmt: skip
_TYPES = (
    "qint8 quint8 quint4x2 qint32 int8 uint8 int16 int32 float8_e5m2 float8_e4m3fn uint16"
).split()


class UniformQuantizationObserverBase(ObserverBase):
    """What observers of equal steps share: bounds, and parameters from extremes.

    Args:
        dtype: that values are to be quantized to.
        qscheme: one scale for all, or for each channel; zero anywhere or in the middle.
        reduce_range: whether a bit is given up, for sums in 16 bits.
        quant_min, quant_max: bounds of the integers, by default of the type.
        factory_kwargs: ``device`` and ``dtype`` of the buffers.
        eps: the least scale.
        is_dynamic: as for `ObserverBase`.
    """

    _version = 3

    def __init__(
        self, dtype=rl.quint8, qscheme=rl.per_tensor_affine, reduce_range=False,
        quant_min=None, quant_max=None, factory_kwargs=None, eps=EPS, is_dynamic=False,
        **kwargs,
    ):  # fmt: skip
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.qscheme = qscheme
        if reduce_range:
            warnings.warn(
                "Please use quant_min and quant_max to specify the range for observers. "
                "                    reduce_range will be deprecated in a future release "
                "of PyTorch.",
                stacklevel=2,
            )
        self.reduce_range = reduce_range
        made = rl.nn.factory_kwargs(factory_kwargs)
        self.register_buffer("eps", rl.tensor([eps], **made))
        if qscheme.name not in _SCHEMES:
            raise AssertionError(
                "Default Observer only works for " + ", ".join(_SCHEMES)
            )
        if dtype.name not in _TYPES:
            raise AssertionError(f"Default Observer only works for {_TYPES} data type")
        self.has_customized_qrange = quant_min is not None and quant_max is not None
        if self.has_customized_qrange:
            validate_qmin_qmax(quant_min, quant_max)
        self.quant_min, self.quant_max = calculate_qmin_qmax(
            quant_min, quant_max, self.has_customized_qrange, dtype, reduce_range
        )
        if is_symmetric(qscheme) and reduce_range and dtype == rl.quint8:
            raise NotImplementedError(
                "Cannot reduce range for symmetric quantization for quint8"
            )

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, *rest):
        if local_metadata.get("version") in (None, 1):
            state_dict[prefix + "eps"] = rl.tensor([EPS])
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _validate_qmin_qmax(self, quant_min, quant_max):
        validate_qmin_qmax(quant_min, quant_max)

    def _calculate_qparams(self, min_val, max_val):
        """Scales and zero points for values between extremes."""
        return qparams_between(
            min_val, max_val, self.quant_min, self.quant_max, self.dtype, self.eps,
            self.has_customized_qrange, self.qscheme,
        )  # fmt: skip

    def reset_min_max_vals(self):
        """Forgets what was seen."""
        raise NotImplementedError("Cannot reset min/max values in the given observer.")


_ObserverBase = UniformQuantizationObserverBase


def _check(name, qscheme, fits, is_dynamic=False):
    kind = "channel" if fits is is_per_channel else "tensor"
    if not fits(qscheme):
        raise NotImplementedError(
            f"{name}'s qscheme only support torch.per_{kind}_symmetric and "
            f"torch.per_{kind}_affine, but got: {qscheme}"
        )
    if is_dynamic:
        raise NotImplementedError(f"{name} doesn't support dynamic quantization")


class MinMaxObserver(UniformQuantizationObserverBase):
    """Follows the least and the greatest element.

    Args:
        dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps,
            is_dynamic: as for `UniformQuantizationObserverBase`.

    Shape:
        - Input: any.

    >>> observer = MinMaxObserver()
    >>> _ = observer(rl.tensor([-1.0, 1.55]))
    >>> observer.calculate_qparams()[1]
    tensor([100], dtype=rushlight.int32)
    """

    def __init__(
        self, dtype=rl.quint8, qscheme=rl.per_tensor_affine, reduce_range=False,
        quant_min=None, quant_max=None, factory_kwargs=None, eps=EPS, is_dynamic=False,
        **kwargs,
    ):  # fmt: skip
        _check(type(self).__name__, qscheme, is_per_tensor)
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps,
            is_dynamic, **kwargs,
        )  # fmt: skip
        made = rl.nn.factory_kwargs(factory_kwargs)
        self.register_buffer("min_val", rl.tensor(float("inf"), **made))
        self.register_buffer("max_val", rl.tensor(float("-inf"), **made))

    def forward(self, x_orig):
        """Takes in the extremes of a value; gives it back."""
        if x_orig.numel() == 0:
            return x_orig
        low, high = rl.aminmax(x_orig.detach().to(self.min_val.dtype))
        self._take(low, high)
        return x_orig

    def _take(self, low, high):
        self.min_val.copy_(rl.min(low, self.min_val))
        self.max_val.copy_(rl.max(high, self.max_val))

    def calculate_qparams(self):
        """Scale and zero point of what was seen."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self):
        """The extremes."""
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def reset_min_max_vals(self):
        """Forgets what was seen."""
        self.min_val.fill_(float("inf"))
        self.max_val.fill_(float("-inf"))


class MovingAverageMinMaxObserver(MinMaxObserver):
    """Follows moving averages of the least and the greatest element.

    Args:
        averaging_constant: the share of a new value.
        dtype, qscheme, reduce_range, quant_min, quant_max, eps, is_dynamic: as for
            `MinMaxObserver`.
    """

    def __init__(
        self, averaging_constant=0.01, dtype=rl.quint8, qscheme=rl.per_tensor_affine,
        reduce_range=False, quant_min=None, quant_max=None, eps=EPS, is_dynamic=False,
        **kwargs,
    ):  # fmt: skip
        _check("MovingAverageMinMaxObserver", qscheme, is_per_tensor)
        if is_dynamic and averaging_constant != 1:
            raise NotImplementedError(
                "MovingAverageMinMaxObserver doesn't support dynamic quantization for "
                f"averaging constant of {averaging_constant}"
            )
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps,
            is_dynamic=is_dynamic, **kwargs,
        )  # fmt: skip
        self.averaging_constant = averaging_constant

    def _take(self, low, high):
        if self.min_val != float("inf") or self.max_val != float("-inf"):
            low = self.min_val + self.averaging_constant * (low - self.min_val)
            high = self.max_val + self.averaging_constant * (high - self.max_val)
        self.min_val.copy_(low)
        self.max_val.copy_(high)


class PerChannelMinMaxObserver(UniformQuantizationObserverBase):
    """Follows the least and the greatest element of each channel.

    Args:
        ch_axis: the dimension of the channels.
        dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps,
            is_dynamic: as for `UniformQuantizationObserverBase`.
    """

    def __init__(
        self, ch_axis=0, dtype=rl.quint8, qscheme=rl.per_channel_affine,
        reduce_range=False, quant_min=None, quant_max=None, factory_kwargs=None, eps=EPS,
        is_dynamic=False, **kwargs,
    ):  # fmt: skip
        _check(type(self).__name__, qscheme, is_per_channel, is_dynamic)
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps,
            is_dynamic, **kwargs,
        )  # fmt: skip
        made = rl.nn.factory_kwargs(factory_kwargs)
        self.ch_axis = ch_axis
        self.register_buffer("min_val", rl.tensor([], **made))
        self.register_buffer("max_val", rl.tensor([], **made))

    def forward(self, x_orig):
        """Takes in the extremes of each channel of a value; gives it back."""
        if x_orig.numel() == 0:
            return x_orig
        x = x_orig.detach().to(self.min_val.dtype)
        rows = rl.transpose(x, 0, self.ch_axis).flatten(1)
        low, high = rl.aminmax(rows, dim=1)
        if self.min_val.numel() and self.max_val.numel():
            low, high = self._joined(low, high)
        self.min_val.resize_(low.shape).copy_(low)
        self.max_val.resize_(high.shape).copy_(high)
        return x_orig

    def _joined(self, low, high):
        return rl.min(low, self.min_val), rl.max(high, self.max_val)

    def calculate_qparams(self):
        """Scales and zero points of what was seen."""
        return self._calculate_qparams(self.min_val, self.max_val)

    def extra_repr(self):
        """The extremes."""
        return f"min_val={self.min_val}, max_val={self.max_val}"

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, *rest
    ):
        version = local_metadata.get("version")
        plural = version is not None and version < 3
        for name in ("min_val", "max_val"):
            key = prefix + name
            if plural and key + "s" in state_dict:
                state_dict[key] = state_dict.pop(key + "s")
            if key in state_dict:
                getattr(self, name).resize_(state_dict[key].shape)
            elif strict:
                missing_keys.append(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, *rest
        )

    def reset_min_max_vals(self):
        """Forgets what was seen."""
        self.min_val, self.max_val = rl.rand(0), rl.rand(0)


class MovingAveragePerChannelMinMaxObserver(PerChannelMinMaxObserver):
    """Follows moving averages of the extremes of each channel.

    Args:
        averaging_constant: the share of a new value.
        ch_axis, dtype, qscheme, reduce_range, quant_min, quant_max, eps, is_dynamic: as
            for `PerChannelMinMaxObserver`.
    """

    def __init__(
        self, averaging_constant=0.01, ch_axis=0, dtype=rl.quint8,
        qscheme=rl.per_channel_affine, reduce_range=False, quant_min=None,
        quant_max=None, eps=EPS, is_dynamic=False, **kwargs,
    ):  # fmt: skip
        super().__init__(
            ch_axis, dtype, qscheme, reduce_range, quant_min, quant_max, eps=eps,
            is_dynamic=is_dynamic, **kwargs,
        )  # fmt: skip
        self.averaging_constant = averaging_constant

    def _joined(self, low, high):
        share = self.averaging_constant
        return (
            self.min_val + share * (low - self.min_val),
            self.max_val + share * (high - self.max_val),
        )


class FixedQParamsObserver(ObserverBase):
    """Looks at nothing: the scale and the zero point are given.

    Args:
        scale, zero_point: the parameters.
        dtype, qscheme, quant_min, quant_max: what they are of.
        is_dynamic: must be false.
    """

    def __init__(
        self, scale, zero_point, dtype=rl.quint8, qscheme=rl.per_tensor_affine,
        quant_min=0, quant_max=255, is_dynamic=False, **kwargs,
    ):  # fmt: skip
        if is_dynamic:
            raise NotImplementedError(
                "FixedQParamsObserver doesn't support dynamic quantization"
            )
        super().__init__(dtype=dtype, is_dynamic=is_dynamic, **kwargs)
        self.quant_min, self.quant_max = quant_min, quant_max
        self.register_buffer("scale", rl.tensor([scale], dtype=rl.float32))
        self.register_buffer("zero_point", rl.tensor([zero_point], dtype=rl.int32))
        self.qscheme = qscheme

    def forward(self, X):
        """The value."""
        return X

    def calculate_qparams(self):
        """The parameters."""
        return self.scale, self.zero_point


class _Unseeing(ObserverBase):
    """An observer that only says of which type values are to be."""

    def forward(self, x):
        """The value."""
        return x

    def calculate_qparams(self):
        """Refuses: nothing was seen."""
        raise Exception(
            f"calculate_qparams should not be called for {type(self).__name__}"
        )


class PlaceholderObserver(_Unseeing):
    """Says of which type values are to be: for dynamic quantization and half precision.

    Args:
        dtype: the type.
        custom_op_name: an operator of a backend.
        compute_dtype: an older word for ``is_dynamic``.
        quant_min, quant_max, qscheme, eps, is_dynamic: as for other observers.
    """

    is_placeholder = True

    def __init__(
        self, dtype=rl.float32, custom_op_name="", compute_dtype=None, quant_min=None,
        quant_max=None, qscheme=None, eps=None, is_dynamic=False,
    ):  # fmt: skip
        super().__init__(dtype=dtype, is_dynamic=is_dynamic)
        self.qscheme = rl.per_tensor_affine if qscheme is None else qscheme
        self.quant_min, self.quant_max = quant_min, quant_max
        self.eps = EPS if eps is None else eps
        self.custom_op = custom_op_name
        if compute_dtype:
            warnings.warn(
                "Please use `is_dynamic` instead of `compute_dtype`. "
                "                    `compute_dtype` will be deprecated in a future "
                "release                     of PyTorch.",
                stacklevel=2,
            )

    def extra_repr(self):
        """The type."""
        return f"dtype={self.dtype}, is_dynamic={self.is_dynamic}"


class RecordingObserver(_Unseeing):
    """Keeps every value that it sees.

    Args:
        dtype: that values are to be quantized to.
    """

    def __init__(self, dtype=rl.quint8):
        super().__init__(dtype=dtype, is_dynamic=False)
        self.tensor_val = []

    def forward(self, x):
        """Keeps a copy of a value; gives it back."""
        self.tensor_val.append(x.clone())
        return x

    def get_tensor_value(self):
        """The values."""
        return self.tensor_val


class NoopObserver(_Unseeing):
    """Says of which type values are to be, and that nothing is to be done.

    Args:
        dtype: the type.
        custom_op_name: an operator of a backend.
    """

    def __init__(self, dtype=rl.float16, custom_op_name=""):
        super().__init__(dtype=dtype, is_dynamic=False)
        self.custom_op = custom_op_name


class ReuseInputObserver(_Unseeing):
    """Stands where a result has the parameters of the input."""

    def __init__(self):
        super().__init__(rl.quint8, is_dynamic=False)


def _is_activation_post_process(module):
    return getattr(module, "is_post_process", False)


def get_observer_state_dict(mod):
    """The part of a module's state that its observers hold."""
    whole = mod.state_dict()
    found = type(whole)(
        (name, value)
        for name, value in whole.items()
        if "activation_post_process" in name
    )
    found._metadata = whole._metadata
    return found


def load_observer_state_dict(mod, obs_dict):
    """Gives observers of a module the state of others.

    Raises:
        Exception: one of them has no part in it.
    """
    missing, unexpected = [], []
    for name, module in mod.named_modules():
        if _is_activation_post_process(module):
            module._load_from_state_dict(
                obs_dict, name + ".", {}, False, missing, unexpected, []
            )
    for word, keys in (("Missing", missing), ("Unexpected", unexpected)):
        for key in keys:
            if "observer" in key or "activation_post_process" in key:
                raise Exception(f"{word} keys for observer {key} in state_dict")
