"""The observer that gives up rare extremes where that loses less than it gains."""

import warnings

import rushlight as rl
from rushlight.ao.quantization._observers import (
    EPS,
    UniformQuantizationObserverBase,
    _check,
)
from rushlight.ao.quantization.utils import is_per_tensor

UPSAMPLED = 16  # pieces of a bin that is laid into others
STEP = 1e-5  # the share of the values by which an end is moved


def _cubes(begin, end, density):
    """The squared error of evenly spread values between two distances from a level."""
    return density * ((end * end * end - begin * begin * begin) / 3)


class HistogramObserver(UniformQuantizationObserverBase):
    """Counts values in bins; the range is the one with the least squared error.

    Args:
        bins: how many.
        dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps,
            is_dynamic: as for `MinMaxObserver`.

    Shape:
        - Input: any.
    """

    def __init__(
        self, bins=2048, dtype=rl.quint8, qscheme=rl.per_tensor_affine,
        reduce_range=False, quant_min=None, quant_max=None, factory_kwargs=None, eps=EPS,
        is_dynamic=False, **kwargs,
    ):  # fmt: skip
        _check("HistogramObserver", qscheme, is_per_tensor, is_dynamic)
        super().__init__(
            dtype, qscheme, reduce_range, quant_min, quant_max, factory_kwargs, eps,
            is_dynamic, **kwargs,
        )  # fmt: skip
        made = rl.nn.factory_kwargs(factory_kwargs)
        self.bins = bins
        self.register_buffer("histogram", rl.zeros(bins, **made))
        self.register_buffer("min_val", rl.tensor(float("inf"), **made))
        self.register_buffer("max_val", rl.tensor(float("-inf"), **made))
        self.dst_nbins = 2 ** rl.iinfo(dtype).bits
        self.upsample_rate = UPSAMPLED

    def forward(self, x_orig):
        """Counts a value's elements; gives it back."""
        if x_orig.numel() == 0:
            return x_orig
        x = x_orig.detach()
        low, high = rl.aminmax(x)
        if low == float("-inf") or high == float("inf"):
            warnings.warn(
                "torch.inf detected in input tensor, ignoring input", stacklevel=2
            )
            x = x[x.abs() != float("inf")]
            if x.numel() == 0:
                return x_orig
            low, high = rl.aminmax(x)
        if self.min_val == float("inf") or self.max_val == float("-inf"):
            self.reset_histogram(x, low, high)
        else:
            self._add(x, rl.min(self.min_val, low), rl.max(self.max_val, high))
        return x_orig

    def _add(self, x, low, high):
        """Counts elements more, between extremes that may be new."""
        fresh = rl.histc(x, self.bins, min=low.item(), max=high.item())
        if low == self.min_val and high == self.max_val:
            self.histogram.copy_(self.histogram + fresh)
            return
        extremes = self.min_val, self.max_val
        self.histogram.copy_(self._moved(*extremes, low, high) + fresh)
        self.min_val.copy_(low)
        self.max_val.copy_(high)

    def reset_histogram(self, x, min_val, max_val):
        """Counts elements from nothing.

        Args:
            x: the elements.
            min_val, max_val: their extremes.
        """
        self.min_val.resize_(min_val.shape).copy_(min_val)
        self.max_val.resize_(max_val.shape).copy_(max_val)
        found = rl.histc(x, self.bins, min=min_val.item(), max=max_val.item())
        self.histogram.resize_(found.shape).copy_(found)

    def _moved(self, min_val, max_val, low, high):
        """What was counted, in bins between other extremes."""
        if min_val == max_val:
            total = rl.sum(self.histogram)
            given = {"min": low.item(), "max": high.item()}
            return rl.histc(min_val, bins=self.bins, **given) * total
        counts = self.histogram.repeat_interleave(UPSAMPLED) / UPSAMPLED
        pieces = self.bins * UPSAMPLED
        starts = rl.linspace(min_val, max_val, pieces + 1)[:-1]
        middles = starts + 0.5 * ((max_val - min_val) / pieces)
        edges = rl.linspace(low, high, self.bins + 1)
        bins = rl.bucketize(middles, edges, right=True) - 1
        bins = rl.clamp(bins, 0, self.bins - 1)
        return rl.bincount(bins, weights=counts, minlength=self.bins)

    def _compute_quantization_error(self, next_start_bin, next_end_bin):
        """The squared error where bins from one to another are the range."""
        width = (self.max_val.item() - self.min_val.item()) / self.bins
        step = width * (next_end_bin - next_start_bin + 1) / self.dst_nbins
        if step == 0.0:
            return 0.0
        begin = (rl.arange(self.bins) - next_start_bin) * width
        end = begin + width
        first, last = (
            rl.clamp(rl.div(side, step, rounding_mode="floor"), 0, self.dst_nbins - 1)
            for side in (begin, end)
        )
        density = self.histogram / width
        half = rl.ones(self.bins) * (step / 2)
        error = rl.zeros(self.bins)
        error += _cubes(begin - (first + 0.5) * step, half, density)
        whole = _cubes(rl.tensor(-step / 2), rl.tensor(step / 2), density)
        error += (last - first - 1) * whole
        error += _cubes(rl.tensor(-step / 2), end - (last * step + step / 2), density)
        return error.sum().item()

    def _non_linear_param_search(self):
        """The extremes of the range with the least error that is found from outside."""
        sums = rl.cumsum(self.histogram, 0).tolist()
        total = rl.sum(self.histogram).item()
        single = rl.tensor([0.0])
        alpha, beta, first, last = 0.0, 1.0, 0, self.bins - 1
        least = float("inf")
        while alpha < beta:
            more, less = alpha + STEP, beta - STEP
            low_end, high_end = (
                single.fill_(share * total).item() for share in (more, less)
            )
            left, right = first, last
            while left < last and sums[left] < low_end:
                left += 1
            while right > first and sums[right] > high_end:
                right -= 1
            if left - first > last - right:
                alpha, tried = more, (left, last)
            else:
                beta, tried = less, (first, right)
            if tried == (first, last):
                continue
            error = self._compute_quantization_error(*tried)
            if error > least:
                break
            least, (first, last) = error, tried
        width = (self.max_val - self.min_val) / self.bins
        return self.min_val + width * first, self.min_val + width * (last + 1)

    def calculate_qparams(self):
        """Scale and zero point of the range that loses least."""
        if self.min_val == float("inf") and self.max_val == float("-inf"):
            warnings.warn(
                "must run observer before calling calculate_qparams."
                "                                    Returning default scale and zero "
                "point ",
                stacklevel=2,
            )
            return rl.tensor([1.0]), rl.tensor([0])
        if self.bins != len(self.histogram):
            raise AssertionError(
                "The number of bins in histogram should be equal to the number of bins "
                "supplied while making this observer"
            )
        return self._calculate_qparams(*self._non_linear_param_search())

    def _load_from_state_dict(
        self, state_dict, prefix, local_metadata, strict, missing_keys, *rest
    ):
        version = local_metadata.get("version")
        for name, nothing in (("min_val", float("inf")), ("max_val", float("-inf"))):
            key = prefix + name
            old = version is None or version < 3
            if old and key in state_dict and state_dict[key].numel() == 0:
                state_dict[key] = rl.tensor(nothing)
        key = prefix + "histogram"
        if key in state_dict:
            self.histogram.resize_(state_dict[key].shape)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, *rest
        )

    def extra_repr(self):
        """The extremes."""
        return f"min_val={self.min_val}, max_val={self.max_val}"
