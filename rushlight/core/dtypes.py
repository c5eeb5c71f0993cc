"""The data types by name: ``from rushlight.core.dtypes import float32``."""

from rushlight.core.dtype import all_dtypes

globals().update(all_dtypes())
# Where Python's own types of these names are wanted too.
bool_, int_, float_ = (all_dtypes()[name] for name in ("bool", "int", "float"))


def __getattr__(name):
    raise AttributeError(f"no data type is called {name!r}")
