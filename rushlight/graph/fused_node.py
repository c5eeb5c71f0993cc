"""One step of a group: its expression, its operands, and where they lie."""

from dataclasses import dataclass, field
from math import inf


@dataclass(eq=False)
class Said:
    """What a kernel, which outlives programs, keeps of a step: no storages, no path.

    Attributes:
        op: the operator.
        line: the user's: file, line, function; or None.
    """

    op: object
    line: tuple | None = None


def said(step):
    """What a kernel keeps of a step."""
    return step if isinstance(step, Said) else Said(step.op, step.call.notes)


@dataclass(eq=False)
class Member:
    """An elementwise step that a kernel can take in.

    Attributes:
        source: the operator's expression.
        inputs: a window, ``("number", index, type)`` or a tensor of one element for each.
        in_types, compute, statics, out_types: what the expression is specialised for.
        outputs: the windows that are written.
        sizes: what it goes over.
        axes: the dimensions that it reduces; None for what goes element by element.
        maps: of such a member, for each input and output the dimensions that its own are;
            None where they are the last ones.
        in_keys, out_keys: where the operands lie, by the group's sizes; see `keys_in`.
    """

    step: object
    source: object
    inputs: list
    in_types: tuple
    out_types: tuple
    compute: tuple
    statics: tuple
    outputs: list
    sizes: tuple
    axes: tuple | None = None
    maps: tuple | None = None
    in_keys: list = field(default_factory=list)
    out_keys: list = field(default_factory=list)
    found: dict = field(default_factory=dict)  # a group's sizes and axes -> the keys

    def keys_in(self, sizes, axes):
        """Where the operands lie in loops over some sizes; None where they have no place.

        Args:
            sizes: of the group.
            axes: the dimensions that the group reduces, or None.

        Returns:
            A key for each input and one for each output: equal keys, equal elements.
        """
        if axes is None and self.sizes != sizes:
            return None
        asked = sizes, axes
        if asked not in self.found:
            self.found[asked] = self._keys_in(sizes, axes)
        return self.found[asked]

    def _keys_in(self, sizes, axes):
        count = len(sizes)
        whole = tuple(range(count))
        spread = whole  # the dimension of the group that each of the member's is
        if self.sizes != sizes:
            if self.axes is not None:
                return None
            kept = tuple(d for d in whole if d not in axes)
            if self.sizes == tuple(1 if d in axes else n for d, n in enumerate(sizes)):
                spread = whole
            elif self.sizes == tuple(sizes[d] for d in kept):
                spread = kept
            else:
                return None
        in_maps, out_maps = self.maps or (
            [None] * len(self.inputs),
            [None] * len(self.outputs),
        )
        found = []
        for operands, maps in ((self.inputs, in_maps), (self.outputs, out_maps)):
            keys = []
            for one, own in zip(operands, maps, strict=True):
                if not is_window(one):
                    keys.append(("one", id(one)))
                    continue
                steps = steps_of(one, spread if own is None else own, sizes)
                if steps is None:
                    return None
                keys.append((one.slot, one.offset, one.dtype.name, steps))
            found.append(keys)
        return found

    @property
    def device(self):
        """Where its operands lie."""
        return self.outputs[0].device

    def moves(self, axes):
        """How many operands' elements along some dimensions its own kernel reads or writes.

        A reduction takes one pass. What gives a row for a row takes as many passes alone.
        """
        read, written = [
            sum(key[0] != "one" and any(key[3][d] for d in axes) for key in keys)
            for keys in (self.in_keys, self.out_keys)
        ]
        return inf if self.axes and written else read + written

    def key(self):
        """What the member computes, as text; wiring apart."""
        parts = self.source.name, self.source.digest, self.in_types, self.out_types
        return repr((*parts, self.compute, self.statics))


def is_window(one):
    """Whether an input is a window on a storage."""
    return hasattr(one, "slot")


def steps_of(window, dims, sizes):
    """A window's strides over the dimensions of a group; None where it does not fit.

    Args:
        dims: the group's dimensions that a member's last ones are.
    """
    if window.ndim > len(dims):
        return None
    steps = [0] * len(sizes)
    for size, stride, d in zip(
        window.sizes, window.strides, dims[len(dims) - window.ndim :], strict=True
    ):
        if size == 1:
            continue
        if size != sizes[d]:
            return None
        steps[d] = stride
    return tuple(steps)
