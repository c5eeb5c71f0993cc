"""Steps of a Fourier transform by a prime that is too large to be written out.

Sums and gaps of what mirrors each other are kept in an array; then every result but the first,
and the one that mirrors it, are two sums each over all of them, a few results at a time:

    mirror      x[j] + x[n - j] and x[j] - x[n - j], for half of the indices
    results     for a few k: the sums by cos(2 pi j k / n), the gaps by sin, in registers
"""

from rushlight.codegen.target import current
from rushlight.core.dtypes import float64
from rushlight.ir.expr import Const, load
from rushlight.kernels.fft.fft_radix import minus, plus, roots, times
from rushlight.kernels.loop_helpers import multiply_add
from rushlight.operators import call as ops


def results_at_once():
    """Results whose four sums, and what is added to them, are in registers."""
    return 4 if current().registers >= 32 else 2


def blocks_of_results(radix):
    """How many whole blocks half of the results have, and how many results are left."""
    return divmod(radix // 2, results_at_once())


def waves(radix):
    """Tables of cosines and sines: for every block of results, place and result a pair."""
    half, several = radix // 2, results_at_once()
    indices = ops.arange(1, half + 1, dtype=float64)
    pairs = ops.stack(roots(-indices.unsqueeze(1) * indices, radix), -1)
    whole = half - half % several
    blocks = pairs[:whole].reshape([-1, several, half, 2]).transpose(1, 2)
    return [blocks.contiguous(), pairs[whole:].transpose(0, 1).contiguous()]


def twiddle_count(steps):
    """Numbers of the roots between steps: a pair for each place and result but the first.

    >>> twiddle_count((3, 37)), twiddle_count((37,))
    (148, 0)
    """
    length, count = 1, 0
    for radix in reversed(steps):
        count += 2 * (radix - 1) * length if length > 1 else 0
        length *= radix
    return count


class LongStep:
    """One step of a kernel of `fft_steps`.

    Args:
        steps: the kernel, as it is written.
        tables: where the step's roots begin, and its waves.
    """

    def __init__(self, steps, radix, length, side, tables):
        self.kernel, self.b = steps, steps.b
        self.radix, self.length, self.side = radix, length, side
        self.twiddles, self.waves = tables

    def write(self, read, keep):
        """The statements, from a function that reads indices to one that keeps them."""
        b, kernel, half = self.b, self.kernel, self.radix // 2
        self.mirrors = b.array("mirrors", kernel.type, 4 * half * kernel.lanes)
        with kernel.each("p", self.length) as p, kernel.each("q", self.side) as q:
            first = self.mirror(p, q, read)
            whole, rest = blocks_of_results(self.radix)
            several = results_at_once()
            with b.loop("block", 0, whole) as block:
                at = block * (2 * half * several) + self.waves
                start = b.let("k", block * several + 1)
                self.results(several, start, at, first, (p, q, keep))
            if rest:
                at = self.waves + whole * (2 * half * several)
                self.results(rest, whole * several + 1, at, first, (p, q, keep))
            # last: what is read may lie where results go
            self.put(0, self.total, (p, q, keep))

    def mirror(self, p, q, read):
        """Fills the array; returns the first value, beside the sum of all."""
        b, kernel = self.b, self.kernel

        def place(j):
            return (p + self.length * j) * self.side + q

        first = read(place(0))
        self.total = [b.declare("total", part) for part in first]
        with b.loop("j", 1, self.radix // 2 + 1) as j:
            near, far = read(place(j)), read(place(self.radix - j))
            both = plus(b, near, far)
            kernel.hold(self.mirrors, j * 2 - 2, both)
            kernel.hold(self.mirrors, j * 2 - 1, minus(b, near, far))
            for total, part in zip(self.total, both, strict=True):
                b.assign(total, total + part)
        return first

    def results(self, count, k, waves, first, target):
        """Some results from ``k`` on, and those that mirror them."""
        b, kernel = self.b, self.kernel
        zero = Const(kernel.type.vector(kernel.lanes), 0.0)
        sums = [
            [b.declare("sum", value) for value in (*first, zero, zero)]
            for _ in range(count)
        ]
        with b.loop("j", 0, self.radix // 2) as j:
            both = kernel.held(self.mirrors, j * 2)
            gap = kernel.held(self.mirrors, j * 2 + 1)
            for i, totals in enumerate(sums):
                at = j * (2 * count) + (waves + 2 * i)
                c, s = (kernel.spread(load(kernel.roots, at + part)) for part in (0, 1))
                for total, value, wave in zip(
                    totals, (*both, *gap), (c, c, s, s), strict=True
                ):
                    b.assign(total, multiply_add(value, wave, total))
        for i, (real, imag, right, left) in enumerate(sums):
            near = b.let("o", real + left), b.let("o", imag - right)
            far = b.let("o", real - left), b.let("o", imag + right)
            self.put(k + i, near, target)
            self.put(self.radix - i - k, far, target)

    def put(self, k, value, target):
        """Keeps one result, turned."""
        p, q, keep = target
        if self.length > 1 and not (isinstance(k, int) and k == 0):
            place = p * (2 * (self.radix - 1)) + (k * 2 + (self.twiddles - 2))
            pair = [load(self.kernel.roots, place + part) for part in range(2)]
            value = times(self.b, value, [self.kernel.spread(part) for part in pair])
        keep((p * self.radix + k) * self.side + q, value)
