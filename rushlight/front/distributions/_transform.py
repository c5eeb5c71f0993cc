"""The base of all transforms, and their inverses."""

import rushlight as rl
from rushlight.distributions import constraints


class Transform:
    """A differentiable map with a computable log-determinant of its Jacobian.

    A derived class gives ``domain``, ``codomain``, ``_call``, ``_inverse`` and
    ``log_abs_det_jacobian``. One that is no bijection may still have a pseudo-inverse,
    such that ``t(t.inv(t(x))) == t(x)``.

    Args:
        cache_size: 1 to remember the last pair of input and output, 0 not to. Remembering
            makes the inverse of an output exact, and free.
    """

    bijective = False
    domain: constraints.Constraint
    codomain: constraints.Constraint

    def __init__(self, cache_size=0):
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._cached_x_y = (None, None)
        self._inv = None
        super().__init__()

    def __getstate__(self):
        # The inverse points back here; it is made again when asked for.
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self):
        """Dimensions of an event, where input and output have as many."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self):
        """The inverse, such that ``t.inv.inv is t``."""
        if self._inv is None:
            self._inv = _InverseTransform(self)
        return self._inv

    @property
    def sign(self):
        """The sign of the derivative, for maps of numbers: 1 or -1."""
        raise NotImplementedError(f"{type(self).__name__} defines no sign")

    def with_cache(self, cache_size=1):
        """The same map with another cache size; itself if it has that size."""
        if self._cache_size == cache_size:
            return self
        return self._rebuilt(cache_size)

    def _rebuilt(self, cache_size):
        """A copy; a class with arguments of its own says how it is made."""
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other):
        return self is other

    def __ne__(self, other):
        return not self == other

    def __call__(self, x):
        if self._cache_size == 0:
            return self._call(x)
        known_x, known_y = self._cached_x_y
        if x is known_x:
            return known_y
        y = self._call(x)
        self._cached_x_y = (x, y)
        return y

    def _inv_call(self, y):
        if self._cache_size == 0:
            return self._inverse(y)
        known_x, known_y = self._cached_x_y
        if y is known_y:
            return known_x
        x = self._inverse(y)
        self._cached_x_y = (x, y)
        return x

    def _call(self, x):
        raise NotImplementedError(f"{type(self).__name__} defines no _call")

    def _inverse(self, y):
        raise NotImplementedError(f"{type(self).__name__} defines no _inverse")

    def log_abs_det_jacobian(self, x, y):
        """``log |dy/dx|`` where ``y`` is the image of ``x``, over the batch.

        Args:
            x: tensor in the domain.
            y: its image.
        """
        raise NotImplementedError(
            f"{type(self).__name__} defines no log_abs_det_jacobian"
        )

    def __repr__(self):
        return f"{type(self).__name__}()"

    def forward_shape(self, shape):
        """The shape of the output for a shape of the input."""
        return shape

    def inverse_shape(self, shape):
        """The shape of the input for a shape of the output."""
        return shape


class _InverseTransform(Transform):
    """The inverse of a transform, which does all the work, caching included."""

    def __init__(self, transform):
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    def __getstate__(self):
        # The transform drops its way back to here, so this one can keep its own.
        return self.__dict__.copy()

    @constraints.dependent_property(is_discrete=False)
    def domain(self):
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self):
        return self._inv.domain

    @property
    def bijective(self):
        return self._inv.bijective

    @property
    def sign(self):
        return self._inv.sign

    @property
    def inv(self):
        return self._inv

    def with_cache(self, cache_size=1):
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other):
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __repr__(self):
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x):
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x, y):
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape):
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape):
        return self._inv.forward_shape(shape)


class _Stateless(Transform):
    """A transform without parameters: two of the same class are equal."""

    def __eq__(self, other):
        return isinstance(other, type(self))


def _check_dims(shape, least):
    if len(shape) < least:
        raise ValueError("Too few dimensions on input")


def _clipped(probs):
    finfo = rl.finfo(probs.dtype)
    return probs.clamp(min=finfo.tiny, max=1.0 - finfo.eps)


def _clipped_sigmoid(x):
    return _clipped(rl.sigmoid(x))
