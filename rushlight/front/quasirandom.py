"""Points that fill a cube evenly: Sobol' sequences.

>>> SobolEngine(dimension=2).draw(4)
tensor([[0.0000, 0.0000],
        [0.5000, 0.5000],
        [0.7500, 0.2500],
        [0.2500, 0.7500]])
"""

import rushlight
from rushlight.operators import call as _call

__all__ = ["SobolEngine"]


class SobolEngine:
    """Draws the points of a Sobol' sequence, one after the other, in up to 21,201 dimensions.

    The first ``2**m`` points put as many into each of certain boxes of equal size, so that
    means over them converge faster than over random points. Scrambled, the sequence keeps
    that and becomes random: means over several such sequences tell their own error.

    Args:
        dimension: the number of coordinates.
        scramble: choose a random sequence of its kind.
        seed: where the choice starts; the default generator chooses without it.

    Raises:
        ValueError: there are no direction numbers for so many dimensions.

    >>> engine = SobolEngine(3, scramble=True, seed=7)
    >>> engine.draw(2).shape
    rushlight.Size([2, 3])
    """

    MAXBIT = 30
    MAXDIM = 21201

    def __init__(self, dimension, scramble=False, seed=None):
        if dimension > self.MAXDIM or dimension < 1:
            raise ValueError(
                "Supported range of dimensionality for SobolEngine is [1, "
                f"{self.MAXDIM}]"
            )
        self.seed = seed
        self.scramble = scramble
        self.dimension = dimension
        # integers on the host, whatever the default device is
        with rushlight.device("cpu"):
            self.sobolstate = rushlight.zeros(
                dimension, self.MAXBIT, dtype=rushlight.int64
            )
            _call._sobol_engine_initialize_state_(self.sobolstate, dimension)
            self.shift = rushlight.zeros(dimension, dtype=rushlight.int64)
            if scramble:
                self._scramble()
            self.quasi = self.shift.clone()
            self._first_point = (self.quasi / 2**self.MAXBIT).reshape(1, -1)
        self.num_generated = 0

    def _scramble(self):
        generator = None
        if self.seed is not None:
            generator = rushlight.Generator()
            generator.manual_seed(self.seed)
        bits = self.dimension, self.MAXBIT
        shifts = rushlight.randint(2, bits, generator=generator)
        self.shift = (shifts << rushlight.arange(self.MAXBIT)).sum(-1)
        triangles = rushlight.randint(2, (*bits, self.MAXBIT), generator=generator)
        _call._sobol_engine_scramble_(self.sobolstate, triangles.tril(), self.dimension)

    def draw(self, n=1, out=None, dtype=None):
        """The next ``n`` points: a row for each.

        Args:
            out: is made to fit, and holds the points then.
            dtype: float32 or float64; the default type without it.

        Raises:
            NotImplementedError: the type is another one.
            RuntimeError: ``n`` is negative.
        """
        if dtype is None:
            dtype = rushlight.get_default_dtype()
        first = self.num_generated == 0
        if first and n == 1:
            points = self._first_point.to(dtype)
        else:
            points, self.quasi = _call._sobol_engine_draw(
                self.quasi,
                n - 1 if first else n,
                self.sobolstate,
                self.dimension,
                0 if first else self.num_generated - 1,
                dtype=dtype,
            )
            if first:
                points = rushlight.cat((self._first_point.to(dtype), points), dim=-2)
        self.num_generated += n
        if out is None:
            return points
        out.resize_as_(points).copy_(points)
        return out

    def draw_base2(self, m, out=None, dtype=None):
        """The next ``2**m`` points, so that the sequence stays in balance.

        Raises:
            ValueError: so many more would not make a power of two.
        """
        n = 2**m
        total = self.num_generated + n
        if total & (total - 1):
            raise ValueError(
                "The balance properties of Sobol' points require n to be a power of 2. "
                f"{self.num_generated} points have been previously generated, then: "
                f"n={self.num_generated}+2**{m}={total}. If you still want to do this, "
                "please use 'SobolEngine.draw()' instead."
            )
        return self.draw(n=n, out=out, dtype=dtype)

    def reset(self):
        """Starts the sequence again."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n):
        """Leaves out the next ``n`` points, at no cost."""
        first = self.num_generated == 0
        _call._sobol_engine_ff_(
            self.quasi,
            n - 1 if first else n,
            self.sobolstate,
            self.dimension,
            0 if first else self.num_generated - 1,
        )
        self.num_generated += n
        return self

    def __repr__(self):
        parts = [f"dimension={self.dimension}"]
        if self.scramble:
            parts.append("scramble=True")
        if self.seed is not None:
            parts.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(parts)})"
