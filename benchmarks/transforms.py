"""Fourier transforms: lone lines and batches, several dimensions, windows along a signal."""

from benchmarks.harness import Case, Group, tensors

# lines and their length: powers of two, others, a prime
LINES = (
    (1, 64), (1, 1000), (1, 1009), (1, 1024), (1, 65536), (1024, 64), (256, 1000),
    (256, 1024), (64, 4096),
)  # fmt: skip


def complex_lines(lines, length):
    def call(library):
        real, imag = tensors(library, (lines, length), (lines, length))
        x = library.complex(real, imag)
        return lambda: library.fft.fft(x)

    return call


def on_real(shape, make):
    def call(library):
        (x,) = tensors(library, shape)
        return make(library, x)

    return call


def planes(library):
    real, imag = tensors(library, (512, 512), (512, 512))
    x = library.complex(real, imag)
    return lambda: library.fft.fft2(x)


def short_time(library):
    (x,) = tensors(library, (8, 16000))
    window = library.hann_window(400)
    return lambda: library.stft(x, 400, 160, window=window, return_complex=True)


def groups(quick):
    """The table's row for Fourier transforms."""
    cases = [Case(f"{a} x {b}", complex_lines(a, b)) for a, b in LINES]
    cases += [
        Case(
            "real, 256 x 1024",
            on_real((256, 1024), lambda lib, x: lambda: lib.fft.rfft(x)),
        ),
        Case("real, 1024", on_real((1024,), lambda lib, x: lambda: lib.fft.rfft(x))),
        Case("planes, 512 x 512", planes),
        Case("stft, 8 x 16000", short_time),
    ]
    return [Group("Fourier transforms", 1.0, cases)]
