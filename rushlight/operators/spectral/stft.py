"""Fourier transforms of short windows along a signal, and the way back."""

from rushlight.core.dtype import FLOATING
from rushlight.core.warning import warn_once
from rushlight.dispatch.outputs import TYPE_NAMES
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import scalar_name
from rushlight.operators.shared import readable
from rushlight.operators.spectral.spectral import BY_ROOT, BY_SIZE, PLAIN

_NO_WINDOW = (
    "A window was not provided. A rectangular window will be applied,which is known to "
    "cause spectral leakage. Other windows such as torch.hann_window or "
    "torch.hamming_window are recommended to reduce spectral leakage.To suppress this "
    "warning and use a rectangular window, explicitly set "
    "`window=torch.ones(n_fft, device=<device>)`."
)
_NO_WINDOW_BACK = (
    "A window was not provided. A rectangular window will be applied.Please provide the "
    "same window used by stft to make the inversion lossless.To suppress this warning and "
    "use a rectangular window, explicitly set "
    "`window=torch.ones(n_fft, device=<device>)`."
)
_NOT_COMPLEX = (
    "stft with return_complex=False is deprecated. In a future pytorch release, stft "
    "will return complex tensors for all inputs, and return_complex=False will raise an "
    "error.\nNote: you can still call torch.view_as_real on the complex output to "
    "recover the old return format."
)
_PADDED = (
    "The length of signal is shorter than the length parameter. Result is being padded "
    "with zeros in the tail. Please check your center and hop_length settings."
)
_SIDES = "Cannot have onesided output if window or input is complex"
LEAST_ENVELOPE = 1e-11


def described(name, self, n_fft, hop_length, win_length, window, **flags):
    """The call, as PyTorch's messages repeat it."""
    shown = "None"
    if window is not None:
        shown = f"{_kind_of(window)}{{{list(window.shape)}}}"
    items = {
        "n_fft": n_fft, "hop_length": hop_length, "win_length": win_length,
        "window": shown, **{key: _word(value) for key, value in flags.items()},
    }  # fmt: skip
    words = ", ".join(f"{key}={value}" for key, value in items.items())
    return f"{name}({_kind_of(self)}{list(self.shape)}, {words}) "


def _kind_of(tensor):
    name = TYPE_NAMES[tensor.dtype.name]
    return f"CPU{name}Type" if tensor.is_complex() else f"torch.{name}Tensor"


def _word(value):
    return "None" if value is None else int(value)


def stft(
    self, n_fft, hop_length=None, win_length=None, window=None, center=True,
    pad_mode="reflect", normalized=False, onesided=None, return_complex=None,
    align_to_window=None,
):  # fmt: skip
    """Windows of ``n_fft`` elements, each transformed.

    Raises:
        RuntimeError: the sizes don't fit, or the type is not one that is transformed.
    """
    if window is None:
        warn_once(_NO_WINDOW)
    if center and align_to_window is not None:
        raise RuntimeError("stft only supports align_to_window for center = False.")
    hop_length = n_fft >> 2 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    wanted = return_complex
    if wanted is None:
        wanted = self.is_complex() or (window is not None and window.is_complex())
    if not wanted:
        if return_complex is None:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, "
                "and will further require that return_complex=True in a future PyTorch "
                "release."
            )
        warn_once(_NOT_COMPLEX)
    signal = self
    if center:
        if pad_mode is None:
            raise TypeError("pad(): argument 'mode' must be str, not NoneType")
        signal = padded(self, n_fft // 2, pad_mode)
    call = described(
        "stft", signal, n_fft, hop_length, win_length, window, normalized=normalized,
        onesided=onesided, return_complex=wanted, align_to_window=align_to_window,
    )  # fmt: skip
    check_signal(signal, call)
    signal = signal.unsqueeze(0) if self.ndim == 1 else signal
    check_lengths(signal.shape[1], n_fft, hop_length, win_length, window, call)
    taken = n_fft
    if not center and align_to_window:
        taken = win_length
        left = (n_fft - win_length) // 2
        signal = ops.constant_pad_nd(signal, [left, left])
    frames = 1 + (self.shape[-1] - taken) // hop_length
    if taken == n_fft:
        frames = 1 + (signal.shape[1] - n_fft) // hop_length
    across, along = signal.stride()
    pieces = ops.as_strided(
        signal, [signal.shape[0], frames, n_fft], [across, hop_length * along, along]
    )
    weights = whole_window(window, win_length, n_fft, self)
    if weights is not None:
        pieces = pieces * weights
    mode = BY_ROOT if normalized else PLAIN
    if pieces.dtype.itemsize == 2:
        raise RuntimeError(
            f"MKL FFT doesn't support tensors of type: {scalar_name(pieces.dtype)}"
        )
    if pieces.is_complex():
        if onesided:
            raise RuntimeError(_SIDES)
        result = ops._fft_c2c(pieces, [2], mode, True)
    else:
        result = ops._fft_r2c(pieces, [2], mode, onesided is None or onesided)
    result = result.transpose(1, 2)
    if self.ndim == 1:
        result = result.squeeze(0)
    return (
        ops._unsafe_view(result, result.shape) if wanted else ops.view_as_real(result)
    )


def stft_within(
    self, n_fft, hop_length, win_length, window, normalized, onesided, return_complex,
    align_to_window,
):  # fmt: skip
    """Windows that lie within the signal, which is not padded."""
    return stft(
        self, n_fft, hop_length, win_length, window, False, "reflect", normalized,
        onesided, return_complex, align_to_window,
    )  # fmt: skip


def padded(signal, amount, mode):
    """The signal with half a window more on both sides."""
    plain = signal.dtype.category and signal.numel()  # what is not, padding refuses
    if plain and mode == "reflect" and signal.ndim and 0 < amount < signal.shape[-1]:
        # two short flips: reading every element by its place takes longer
        before = signal[..., 1 : amount + 1].flip(-1)
        after = signal[..., -amount - 1 : -1].flip(-1)
        return ops.cat([before, signal, after], -1)
    missing = max(3 - signal.ndim, 0)
    whole = signal.reshape([*[1] * missing, *signal.shape])
    whole = ops.pad(whole, [amount, amount], mode)
    return whole.reshape([*signal.shape[:-1], whole.shape[-1]])


def whole_window(window, win_length, n_fft, like):
    """The window in the middle of zeros; None is one of all ones."""
    if win_length == n_fft:
        return window
    left = (n_fft - win_length) // 2
    if window is None:
        window = ops.ones([win_length], dtype=like.dtype, device=like.device)
    return ops.constant_pad_nd(window, [left, n_fft - win_length - left])


def check_signal(self, call):
    """Refuses signals of other types or dimensions.

    Raises:
        RuntimeError: the signal is one of them.
    """
    if self.dtype.category < FLOATING:
        raise RuntimeError(
            f"{call}: expected a tensor of floating point or complex values"
        )
    if not 1 <= self.ndim <= 2:
        raise RuntimeError(f"{call}: expected a 1D or 2D tensor")


def check_lengths(length, n_fft, hop_length, win_length, window, call):
    """Refuses windows that don't fit.

    Raises:
        RuntimeError: a size is too small, or too large.
    """
    if not 0 < n_fft <= length:
        raise RuntimeError(
            f"{call}: expected 0 < n_fft < {length}, but got n_fft={win_length}"
        )
    if hop_length <= 0:
        raise RuntimeError(
            f"{call}: expected hop_length > 0, but got hop_length={hop_length}"
        )
    if not 0 < win_length <= n_fft:
        raise RuntimeError(
            f"{call}: expected 0 < win_length <= n_fft, but got win_length={win_length}"
        )
    if window is not None and list(window.shape) != [win_length]:
        raise RuntimeError(
            f"{call}: expected a 1D window tensor of size equal to "
            f"win_length={win_length}, but got window with size {list(window.shape)}"
        )


def istft(
    self, n_fft, hop_length=None, win_length=None, window=None, center=True,
    normalized=False, onesided=None, length=None, return_complex=False,
):  # fmt: skip
    """Windows transformed back, added where they overlap, over the sum of the weights.

    Raises:
        RuntimeError: the sizes don't fit, or the windows leave a gap.
    """
    if window is None:
        warn_once(_NO_WINDOW_BACK)
    hop_length = n_fft >> 2 if hop_length is None else hop_length
    win_length = n_fft if win_length is None else win_length
    call = described(
        "istft", self, n_fft, hop_length, win_length, window,
        center=center, normalized=normalized, onesided=onesided, length=length,
        return_complex=return_complex,
    )  # fmt: skip
    onesided = check_spectra(self, n_fft, onesided, call)
    check_windows(n_fft, hop_length, win_length, window, call)
    weights = window
    if weights is None:
        real = self.dtype.to_real()
        weights = ops.ones([win_length], dtype=real, device=self.device)
    weights = whole_window(weights, win_length, n_fft, self)
    spectra = self.unsqueeze(0) if self.ndim == 2 else self
    spectra = spectra.transpose(1, 2)
    pieces = back_transformed(
        spectra, n_fft, window, normalized, onesided, return_complex
    )
    frames = pieces.shape[1]
    whole = n_fft + hop_length * (frames - 1)
    pieces = pieces * weights.reshape([1, 1, n_fft])
    signal = ops.unfold_backward(pieces, [pieces.shape[0], whole], 1, n_fft, hop_length)
    squares = (weights * weights).expand([1, frames, n_fft])
    envelope = ops.unfold_backward(squares, [1, whole], 1, n_fft, hop_length)
    start = n_fft // 2 if center else 0
    end = whole if length is None else start + length
    if length is None and center:
        end = whole - n_fft // 2
    signal, envelope = signal[:, start:end], envelope[:, start:end]
    if readable(envelope) and ops.min(ops.abs(envelope)).item() < LEAST_ENVELOPE:
        raise RuntimeError(f"{call} window overlap add min: 1")
    signal = signal / envelope
    if self.ndim == 2:
        signal = signal.squeeze(0)
    if end > whole:
        warn_once(_PADDED)
        signal = ops.constant_pad_nd(signal, [0, end - whole])
    return signal


def back_transformed(spectra, n_fft, window, normalized, onesided, return_complex):
    """Every spectrum as a piece of the signal."""
    mode = BY_ROOT if normalized else BY_SIZE
    if return_complex:
        if onesided:
            raise RuntimeError(_SIDES)
        return ops._fft_c2c(spectra, [2], mode, False)
    if window is not None and window.is_complex():
        raise RuntimeError("Complex windows are incompatible with return_complex=False")
    if not onesided:
        spectra = spectra[:, :, : n_fft // 2 + 1]
    return ops._fft_c2r(spectra, [2], mode, n_fft)


def check_spectra(self, n_fft, onesided, call):
    """Refuses spectra of other sizes; whether they are halves.

    Raises:
        RuntimeError: a size or the type is another.
    """
    if not self.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft "
            "with return_complex=True."
        )
    if self.numel() == 0:
        raise RuntimeError(f"{call}: input tensor cannot be empty.")
    if self.ndim not in (2, 3):
        raise RuntimeError(
            f"{call}: expected a tensor with 2 or 3 dimensions, but got {self.ndim}"
        )
    size = self.shape[-2]
    if onesided is None:
        onesided = size != n_fft
    expected = n_fft // 2 + 1 if onesided else n_fft
    if size != expected:
        rule = (
            "n_fft / 2 + 1 when onesided=True"
            if onesided
            else "n_fft when onesided=False"
        )
        raise RuntimeError(
            f"{call}: expected the frequency dimension (3rd to the last) of the input "
            f"tensor to match {rule}, but got {size}"
        )
    return onesided


def check_windows(n_fft, hop_length, win_length, window, call):
    """Refuses windows that don't fit.

    Raises:
        RuntimeError: a size is too small, or too large.
    """
    if not 0 < hop_length <= win_length:
        raise RuntimeError(f"{call}: expected 0 < hop_length <= win_length")
    if not 0 < win_length <= n_fft:
        raise RuntimeError(f"{call}: expected 0 < win_length <= n_fft")
    if window is not None and list(window.shape) != [win_length]:
        raise RuntimeError(
            f"{call}: Invalid window shape. window has to be 1D and length of `win_length`"
        )
