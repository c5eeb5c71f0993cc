"""What a model is made of: shapes, parameters and memory, layer by layer."""

from typing import NamedTuple

import rushlight as rl
from rushlight.core.tensor import Tensor
from rushlight.nn.parameter import is_lazy


class LayerRow(NamedTuple):
    """One module of a model.

    Args:
        path: its name inside the model; empty for the model itself.
        kind: its class.
        depth: how far below the model it is.
        shapes: of the tensors that its last call returned.
        parameters: how many numbers it holds itself, tied ones where they come first.
        trainable: how many of them are trained.
        held_bytes: memory of its own parameters and buffers.
        made_bytes: memory of all that its calls returned.
        calls: how often it was called.
    """

    path: str
    kind: str
    depth: int
    shapes: tuple
    parameters: int
    trainable: int
    held_bytes: int
    made_bytes: int
    calls: int


class Summary:
    """The rows of a model's modules, and their sums; prints as a table.

    Args:
        rows: a ``LayerRow`` for each module, in the order of ``named_modules``.
        input_bytes: memory of the inputs.
    """

    def __init__(self, rows, input_bytes):
        self.rows = rows
        self.input_bytes = input_bytes

    def _total(self, field):
        return sum(getattr(row, field) for row in self.rows)

    @property
    def parameters(self):
        """How many numbers the model holds as parameters, tied ones once."""
        return self._total("parameters")

    @property
    def trainable(self):
        """How many of them are trained."""
        return self._total("trainable")

    @property
    def held_bytes(self):
        """Memory of all parameters and buffers."""
        return self._total("held_bytes")

    @property
    def made_bytes(self):
        """Memory of what the layers that have no layers below returned."""
        inner = {row.path.rpartition(".")[0] for row in self.rows[1:]}
        return sum(row.made_bytes for row in self.rows if row.path not in inner)

    def __repr__(self):
        table = [("layer", "kind", "output", "parameters", "holds", "makes")]
        for row in self.rows:
            name = row.path.rpartition(".")[2] or "model"
            times = f" x{row.calls}" if row.calls > 1 else ""
            table.append(
                (
                    "  " * row.depth + name,
                    row.kind,
                    " ".join(str(list(each)) for each in row.shapes) + times,
                    f"{row.parameters:,}" if row.parameters else "-",
                    readable_bytes(row.held_bytes),
                    readable_bytes(row.made_bytes),
                )
            )
        widths = [max(map(len, column)) for column in zip(*table)]
        lines = []
        for entries in table:
            left = [e.ljust(w) for e, w in zip(entries[:3], widths)]
            right = [e.rjust(w) for e, w in zip(entries[3:], widths[3:])]
            lines.append("  ".join(left + right).rstrip())
        rule = "-" * max(map(len, lines))
        lines.insert(1, rule)
        lines += [
            rule,
            f"{self.parameters:,} parameters, {self.trainable:,} of them trained: "
            f"{readable_bytes(self.held_bytes)} with the buffers",
        ]
        if self.made_bytes:
            lines.append(
                f"{readable_bytes(self.input_bytes)} of inputs, "
                f"{readable_bytes(self.made_bytes)} of results"
            )
        return "\n".join(lines)


def readable_bytes(count):
    """A number of bytes for people.

    >>> readable_bytes(0), readable_bytes(1000), readable_bytes(5 << 20)
    ('-', '1000 B', '5.0 MiB')
    """
    if count == 0:
        return "-"
    if count < 1024:
        return f"{count} B"
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        count /= 1024
        if count < 1024 or unit == "TiB":
            break
    return f"{count:.1f} {unit}"


def _tensors_of(value):
    """The tensors of a nest."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors_of(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors_of(each)


def _bytes_of(tensors):
    return sum(each.numel() * each.element_size() for each in tensors)


def _as_input(value):
    """A tensor of zeros for a tuple of sizes; anything else as it is."""
    sizes = isinstance(value, (tuple, list)) and value
    if sizes and all(isinstance(each, int) for each in value):
        return rl.zeros(value)
    return value


def summary(model, *inputs, **kwargs):
    """A table of a model's layers: output sizes, parameters and memory.

    Args:
        model: a module; it is called once, without a graph, if there are inputs. What
            its training mode changes, such as running means, is put back.
        inputs: its arguments; a tuple of sizes stands for a tensor of zeros.
        kwargs: its keyword arguments.

    Returns:
        A ``Summary``, which prints as the table.

    >>> model = rl.nn.Sequential(rl.nn.Linear(4, 3), rl.nn.ReLU())
    >>> summary(model, (2, 4))
    layer  kind        output  parameters  holds  makes
    ---------------------------------------------------
    model  Sequential  [2, 3]           -      -   24 B
      0    Linear      [2, 3]          15   60 B   24 B
      1    ReLU        [2, 3]           -      -   24 B
    ---------------------------------------------------
    15 parameters, 15 of them trained: 60 B with the buffers
    32 B of inputs, 48 B of results
    """
    inputs = tuple(map(_as_input, inputs))
    kwargs = {key: _as_input(value) for key, value in kwargs.items()}
    seen = _watched(model, inputs, kwargs) if inputs or kwargs else {}
    rows, counted = [], set()
    for path, module in model.named_modules():
        own = []
        for each in module.parameters(recurse=False):
            if not is_lazy(each) and id(each) not in counted:
                counted.add(id(each))
                own.append(each)
        buffers = [each for each in module.buffers(recurse=False) if not is_lazy(each)]
        shapes, made, calls = seen.get(id(module), ((), 0, 0))
        rows.append(
            LayerRow(
                path,
                type(module).__name__,
                path.count(".") + 1 if path else 0,
                shapes,
                sum(each.numel() for each in own),
                sum(each.numel() for each in own if each.requires_grad),
                _bytes_of(own + buffers),
                made,
                calls,
            )
        )
    return Summary(rows, _bytes_of(_tensors_of((inputs, kwargs))))


def _watched(model, inputs, kwargs):
    """Call the model: by module, the last call's shapes, all bytes, and calls."""
    seen: dict = {}

    def note(module, args, result):
        tensors = list(_tensors_of(result))
        _, made, calls = seen.get(id(module), ((), 0, 0))
        shapes = tuple(tuple(each.shape) for each in tensors)
        seen[id(module)] = shapes, made + _bytes_of(tensors), calls + 1

    handles = [each.register_forward_hook(note) for each in model.modules()]
    before = [
        (each, each.detach().clone()) for each in model.buffers() if not is_lazy(each)
    ]
    random = rl.get_rng_state()
    try:
        with rl.no_grad():
            model(*inputs, **kwargs)
            for buffer, value in before:
                buffer.copy_(value)
    finally:
        rl.set_rng_state(random)
        for handle in handles:
            handle.remove()
    return seen
