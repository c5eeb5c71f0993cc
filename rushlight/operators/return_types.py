"""Named tuples that operators with several results return."""

from operator import itemgetter

from rushlight.core import naming

_known = {}


class ReturnType(tuple):
    """A tuple whose items also have names."""

    __slots__ = ()
    _fields = ()

    def __repr__(self):
        body = ",\n".join(
            f"{name}={value!r}" for name, value in zip(self._fields, self)
        )
        return f"{naming.package}.return_types.{type(self).__name__}(\n{body})"

    def __reduce__(self):
        return (_rebuild, (type(self).__name__, self._fields, tuple(self)))


def return_type(name, fields):
    """The tuple class of operator ``name``, with an attribute for each field."""
    kind = _known.get((name, fields))
    if kind is None:
        body = {field: property(itemgetter(i)) for i, field in enumerate(fields)}
        body.update(__slots__=(), _fields=fields, n_unnamed_fields=0)
        body.update(n_fields=len(fields), n_sequence_fields=len(fields))
        kind = type(name, (ReturnType,), body)
        _known[(name, fields)] = kind
    return kind


def _rebuild(name, fields, values):
    return return_type(name, fields)(values)


def __getattr__(name):
    for (operator, _), kind in _known.items():
        if operator == name:
            return kind
    raise AttributeError(f"no operator '{name}' returns a named tuple")


def __dir__():
    return sorted({*globals(), *(operator for operator, _ in _known)})
