"""Fake quantization: values rounded to what integers express, that gradients pass."""

from abc import ABC, abstractmethod

import rushlight as rl
from rushlight.ao.quantization.observer import (
    FixedQParamsObserver,
    HistogramObserver,
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
    _with_args,
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
)
from rushlight.ao.quantization.utils import is_per_channel, is_per_tensor, is_symmetric
from rushlight.nn import Module

__all__ = [
    "FakeQuantize",
    "FakeQuantizeBase",
    "FixedQParamsFakeQuantize",
    "FusedMovingAvgObsFakeQuantize",
    "default_affine_fixed_qparams_fake_quant",
    "default_dynamic_fake_quant",
    "default_embedding_fake_quant",
    "default_embedding_fake_quant_4bit",
    "default_fake_quant",
    "default_fixed_qparams_range_0to1_fake_quant",
    "default_fixed_qparams_range_neg1to1_fake_quant",
    "default_fused_act_fake_quant",
    "default_fused_per_channel_wt_fake_quant",
    "default_fused_wt_fake_quant",
    "default_histogram_fake_quant",
    "default_per_channel_weight_fake_quant",
    "default_symmetric_fixed_qparams_fake_quant",
    "default_weight_fake_quant",
    "disable_fake_quant",
    "disable_observer",
    "enable_fake_quant",
    "enable_observer",
    "fused_per_channel_wt_fake_quant_range_neg_127_to_127",
    "fused_wt_fake_quant_range_neg_127_to_127",
]


class FakeQuantizeBase(ABC, Module):
    """What observes, and rounds; either can be switched off."""

    is_post_process = True

    def __init__(self):
        super().__init__()
        self.register_buffer("fake_quant_enabled", rl.tensor([1], dtype=rl.uint8))
        self.register_buffer("observer_enabled", rl.tensor([1], dtype=rl.uint8))

    @abstractmethod
    def forward(self, x):
        """Takes a value in; gives it back rounded."""

    @abstractmethod
    def calculate_qparams(self, **kwargs):
        """Scale and zero point of what was seen."""

    def enable_fake_quant(self, enabled=True):
        """Switches the rounding on, or off."""
        self.fake_quant_enabled[0] = 1 if enabled else 0

    def disable_fake_quant(self):
        """Switches the rounding off."""
        self.enable_fake_quant(False)

    def enable_observer(self, enabled=True):
        """Switches the observing on, or off."""
        self.observer_enabled[0] = 1 if enabled else 0

    def disable_observer(self):
        """Switches the observing off."""
        self.enable_observer(False)

    @classmethod
    def with_args(cls, **kwargs):
        """The class with arguments."""
        return _with_args(cls, **kwargs)


class FakeQuantize(FakeQuantizeBase):
    """Rounds values by the scale that an observer finds.

    Args:
        observer: a class of observers.
        quant_min, quant_max: bounds of the integers.
        is_dynamic: as for observers.
        observer_kwargs: for the observer.

    Raises:
        AssertionError: the bounds are none of the type's.
    """

    def __init__(
        self, observer=MovingAverageMinMaxObserver, quant_min=None, quant_max=None,
        is_dynamic=False, **observer_kwargs,
    ):  # fmt: skip
        super().__init__()
        if quant_min is not None and quant_max is not None:
            _check_bounds(observer, quant_min, quant_max, observer_kwargs)
            observer_kwargs |= {"quant_min": quant_min, "quant_max": quant_max}
        observer_kwargs["is_dynamic"] = is_dynamic
        seen = self.activation_post_process = observer(**observer_kwargs)
        self.quant_min, self.quant_max = seen.quant_min, seen.quant_max
        self.is_dynamic = seen.is_dynamic
        floating = seen.qscheme == rl.per_channel_affine_float_qparams
        kind = rl.float32 if floating else rl.int32
        self.register_buffer("scale", rl.tensor([1.0], dtype=rl.float32))
        self.register_buffer("zero_point", rl.tensor([0], dtype=kind))
        self.dtype, self.qscheme = seen.dtype, seen.qscheme
        self.ch_axis = getattr(seen, "ch_axis", -1)
        if not (is_per_channel(self.qscheme) or is_per_tensor(self.qscheme)):
            raise AssertionError(
                "Only per channel and per tensor quantization are supported in fake "
                f"quantize got qscheme: {self.qscheme}"
            )
        self.is_per_channel = is_per_channel(self.qscheme)

    def calculate_qparams(self):
        """Scale and zero point of what was seen."""
        return self.activation_post_process.calculate_qparams()

    def forward(self, X):
        """Takes a value in; gives it back rounded."""
        if self.observer_enabled[0] == 1:
            self.activation_post_process(X.detach())
            for kept, found in zip(
                (self.scale, self.zero_point), self.calculate_qparams()
            ):
                kept.resize_(found.shape).copy_(found)
        if self.fake_quant_enabled[0] != 1:
            return X
        bounds = (
            self.activation_post_process.quant_min,
            self.activation_post_process.quant_max,
        )
        given = X, self.scale, self.zero_point
        if self.is_per_channel:
            return rl.fake_quantize_per_channel_affine(*given, self.ch_axis, *bounds)
        return rl.fake_quantize_per_tensor_affine(*given, *bounds)

    def extra_repr(self):
        """Switches, bounds, type, scale and zero point."""
        seen = self.activation_post_process
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, "
            f"observer_enabled={self.observer_enabled}, quant_min={seen.quant_min}, "
            f"quant_max={seen.quant_max}, dtype={self.dtype}, qscheme={self.qscheme}, "
            f"ch_axis={self.ch_axis}, scale={self.scale}, zero_point={self.zero_point}"
        )

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, *rest
    ):
        for name in ("scale", "zero_point"):
            key = prefix + name
            if key in state_dict:
                getattr(self, name).resize_(state_dict[key].shape)
            elif strict:
                missing_keys.append(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, *rest
        )


def _check_bounds(observer, quant_min, quant_max, settings):
    if quant_min > quant_max:
        raise AssertionError("quant_min must be less than or equal to quant_max")
    dtype = settings.get("dtype", rl.quint8)
    partial = getattr(observer, "p", None)
    dtype = getattr(partial, "keywords", {}).get("dtype", dtype)
    if rl.iinfo(dtype).min > quant_min:
        raise AssertionError("quant_min out of bound")
    if quant_max > rl.iinfo(dtype).max:
        raise AssertionError("quant_max out of bound")


class FixedQParamsFakeQuantize(FakeQuantize):
    """Rounds values by a scale that is given.

    Args:
        observer: makes a `FixedQParamsObserver`.

    Raises:
        AssertionError: it makes another one.
    """

    def __init__(self, observer):
        super().__init__(observer=observer)
        if type(self.activation_post_process) is not FixedQParamsObserver:
            raise AssertionError(
                f"{type(self).__name__}'s observer must be a FixedQParamsObserver"
            )
        self._observer_ctr = observer
        self.scale = self.activation_post_process.scale
        self.zero_point = self.activation_post_process.zero_point

    def calculate_qparams(self):
        """The parameters."""
        return self.scale, self.zero_point

    def extra_repr(self):
        """Switches, scale, zero point, type and bounds."""
        seen = self.activation_post_process
        return (
            f"fake_quant_enabled={self.fake_quant_enabled}, "
            f"observer_enabled={self.observer_enabled}, scale={self.scale}, "
            f"zero_point={self.zero_point}, dtype={self.dtype}, "
            f"quant_min={seen.quant_min}, quant_max={seen.quant_max}, "
            f"qscheme={self.qscheme}"
        )


class FusedMovingAvgObsFakeQuantize(FakeQuantize):
    """Observes moving averages and rounds by one operator.

    Args:
        observer: of moving averages.
        quant_min, quant_max, observer_kwargs: as for `FakeQuantize`.

    Raises:
        AssertionError: the observer is another one.
    """

    def __init__(
        self, observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255,
        **observer_kwargs,
    ):  # fmt: skip
        super().__init__(observer, quant_min, quant_max, **observer_kwargs)
        averaging = MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver
        if not isinstance(self.activation_post_process, averaging):
            raise AssertionError(
                "Fused observer+fake_quant module only works with "
                "MovingAverageMinMaxObserver"
            )
        self.register_buffer("fake_quant_enabled", rl.tensor([1], dtype=rl.int64))
        self.register_buffer("observer_enabled", rl.tensor([1], dtype=rl.int64))
        self.is_symmetric_quant = is_symmetric(self.activation_post_process.qscheme)

    def extra_repr(self):
        """Switches, scale, zero point, type and bounds."""
        seen = self.activation_post_process
        return (
            f"{FixedQParamsFakeQuantize.extra_repr(self)}, "
            f"reduce_range={seen.reduce_range}"
        )

    def forward(self, X):
        """Takes a value in; gives it back rounded."""
        seen = self.activation_post_process
        return rl.fused_moving_avg_obs_fake_quant(
            X, self.observer_enabled, self.fake_quant_enabled, seen.min_val,
            seen.max_val, self.scale, self.zero_point, seen.averaging_constant,
            seen.quant_min, seen.quant_max, self.ch_axis, self.is_per_channel,
            self.is_symmetric_quant,
        )  # fmt: skip


_AVERAGE = {"observer": MovingAverageMinMaxObserver}
_CHANNELS = {"observer": MovingAveragePerChannelMinMaxObserver}
_BYTES = {"quant_min": 0, "quant_max": 255, "dtype": rl.quint8}
_SIGNED = {"quant_min": -128, "quant_max": 127, "dtype": rl.qint8}
_NARROW = {"quant_min": -127, "quant_max": 127, "dtype": rl.qint8, "eps": 2**-12}
_AFFINE = {"qscheme": rl.per_tensor_affine, "reduce_range": True}
_MIDDLE = {"qscheme": rl.per_tensor_symmetric}
_MIDDLES = {"qscheme": rl.per_channel_symmetric}
_ROWS = {"qscheme": rl.per_channel_affine_float_qparams, "ch_axis": 0}

default_fake_quant = FakeQuantize.with_args(**_AVERAGE, **_BYTES, **_AFFINE)
default_weight_fake_quant = FakeQuantize.with_args(
    **_AVERAGE, **_SIGNED, **_MIDDLE, reduce_range=False
)
default_dynamic_fake_quant = FakeQuantize.with_args(
    **_AVERAGE, **_BYTES, is_dynamic=True, averaging_constant=1
)
default_fixed_qparams_range_neg1to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_neg1to1_observer
)
default_fixed_qparams_range_0to1_fake_quant = FixedQParamsFakeQuantize.with_args(
    observer=default_fixed_qparams_range_0to1_observer
)
default_symmetric_fixed_qparams_fake_quant = (
    default_fixed_qparams_range_neg1to1_fake_quant
)
default_affine_fixed_qparams_fake_quant = default_fixed_qparams_range_0to1_fake_quant
default_per_channel_weight_fake_quant = FakeQuantize.with_args(
    **_CHANNELS, **_SIGNED, **_MIDDLES, reduce_range=False, ch_axis=0
)
default_embedding_fake_quant = FakeQuantize.with_args(
    **_CHANNELS, **_ROWS, **_BYTES, averaging_constant=1
)
default_embedding_fake_quant_4bit = FakeQuantize.with_args(
    **_CHANNELS, **_ROWS, dtype=rl.quint4x2, averaging_constant=1
)
default_histogram_fake_quant = FakeQuantize.with_args(
    observer=HistogramObserver, **_BYTES, **_AFFINE
)
_fused = FusedMovingAvgObsFakeQuantize.with_args
default_fused_act_fake_quant = _fused(**_AVERAGE, **_BYTES)
default_fused_wt_fake_quant = _fused(**_AVERAGE, **_SIGNED, **_MIDDLE)
default_fused_per_channel_wt_fake_quant = _fused(**_CHANNELS, **_SIGNED, **_MIDDLES)
fused_wt_fake_quant_range_neg_127_to_127 = _fused(**_AVERAGE, **_NARROW, **_MIDDLE)
fused_per_channel_wt_fake_quant_range_neg_127_to_127 = _fused(
    **_CHANNELS, **_NARROW, **_MIDDLES
)


def _switch(name):
    def switch(mod):
        if isinstance(mod, FakeQuantizeBase):
            getattr(mod, name)()

    switch.__name__ = switch.__qualname__ = name
    switch.__doc__ = f"``{name}`` of a module that rounds: for ``Module.apply``."
    return switch


disable_fake_quant = _switch("disable_fake_quant")
enable_fake_quant = _switch("enable_fake_quant")
disable_observer = _switch("disable_observer")
enable_observer = _switch("enable_observer")
