"""PyTorch's names for how tensors print."""

from rushlight.io import printing
from rushlight.io.printing import (
    get_printoptions,
    printoptions,
    set_printoptions,
    tensor_repr,
)

__all__ = ["get_printoptions", "printoptions", "set_printoptions"]


class _Options:
    """What is in force now, as attributes that may be set.

    >>> PRINT_OPTS.threshold
    1000
    """

    def __getattr__(self, name):
        return getattr(printing._options, name)

    def __setattr__(self, name, value):
        printing._options = printing._options._replace(**{name: value})


PRINT_OPTS = _Options()


def _tensor_str(self, indent):
    """The numbers alone; lines after the first begin after ``indent`` blanks."""
    return printing.contents(self, indent)


def _add_suffixes(tensor_str, suffixes, indent, force_newline):
    """Closes a text that began with ``tensor(``, suffixes first, in lines of the width."""
    lines = [tensor_str]
    width = len(tensor_str) - tensor_str.rfind("\n") + 1
    for suffix in suffixes:
        if force_newline or width + len(suffix) + 2 > PRINT_OPTS.linewidth:
            lines.append(",\n" + " " * indent + suffix)
            width, force_newline = indent + len(suffix), False
        else:
            lines.append(", " + suffix)
            width += len(suffix) + 2
    return "".join(lines) + ")"


def _str_intern(inp, *, tensor_contents=None):
    """The text of a tensor, with other contents than its numbers where given."""
    text = tensor_repr(inp)
    if tensor_contents is None:
        return text
    prefix = text[: text.index("(") + 1]
    words = printing.suffixes(inp)
    return _add_suffixes(prefix + tensor_contents, words, len(prefix), False)


def _str(self, *, tensor_contents=None):
    """The text of a tensor."""
    return _str_intern(self, tensor_contents=tensor_contents)
