"""How programs write operators in Inductor's language; kernels here are not written in it."""

__all__ = ["lowerings", "register_lowering", "to_dtype"]

lowerings: dict = {}


def register_lowering(aten_fn, **options):
    """Notes how a program writes an operator; compiled programs call its own kernel.

    Args:
        aten_fn: the operator, or several.
        options: how operands are prepared: ``broadcast``, ``type_promotion_kind``, ...

    >>> import rushlight as rl
    >>> lowered = register_lowering(rl.ops.aten.exp.default)(lambda x: x)
    >>> lowerings[rl.ops.aten.exp.default] is lowered
    True
    """
    several = aten_fn if isinstance(aten_fn, (list, tuple)) else [aten_fn]

    def register(function):
        lowerings.update(dict.fromkeys(several, function))
        return function

    return register


def to_dtype(x, dtype, copy=False):
    """Would write a conversion in Inductor's language.

    Raises:
        NotImplementedError: always.
    """
    raise NotImplementedError("to_dtype: operators have kernels of their own here")
