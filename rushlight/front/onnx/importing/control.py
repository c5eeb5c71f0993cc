"""Graphs inside of nodes, sequences, and values that may be missing."""

import rushlight as rl
from rushlight.onnx.errors import OnnxLoadError
from rushlight.onnx.importing._table import implements, integers

_MOST_ITERATIONS = 2**31


def _results(made):
    return list(made) if isinstance(made, tuple) else [made]  # a list is one value


@implements("If")
def run_if(condition, then_branch, else_branch, *captured, outputs=1):
    """One of two graphs.

    Args:
        condition: which.
        then_branch: a module; ``else_branch`` too.
        captured: what both take from around.
    """
    branch = then_branch if bool(condition) else else_branch
    made = _results(branch(*captured))
    return tuple(made) if outputs > 1 else made[0]


@implements("Loop")
def run_loop(iterations, condition, body, carried, *captured, outputs=1):
    """A graph again and again, on what it gave the last time.

    Args:
        iterations: how often at most, or None.
        condition: whether to begin, or None.
        body: a module of the turn's number, the condition, what is carried, and what it
            takes from around; it gives the next condition, what is carried, and rows of
            further results.
        carried: what it begins with.
        captured: what it takes from around.
    """
    most = _MOST_ITERATIONS if iterations is None else integers(iterations)[0]
    alive = condition is None or bool(condition)
    state, count = list(carried), len(carried)
    rows: list = [[] for _ in range(outputs - count)]
    iteration = 0
    while alive and iteration < most:
        number = rl.tensor(iteration, dtype=rl.int64)
        made = _results(body(number, rl.tensor(alive), *state, *captured))
        alive, state = bool(made[0]), made[1 : 1 + count]
        for row, one in zip(rows, made[1 + count :]):
            row.append(one)
        iteration += 1
    results = state + [rl.stack(row) if row else rl.zeros(0) for row in rows]
    return tuple(results) if outputs > 1 else results[0]


def _row(x, axis, at, backward):
    size = x.shape[axis]
    return x.select(axis, size - 1 - at if backward else at)


def _scan_batch(body, given, captured, count, directions, outputs):
    """The operator before version 9: lengths first, and a batch around all."""
    rows = []
    for at in range(given[-1].shape[0]):
        own = [one[at] for one in given]
        made = run_scan(
            body, own, *captured, num_scan_inputs=count, outputs=outputs,
            scan_input_directions=directions,
        )  # fmt: skip
        rows.append(_results(made))
    return [rl.stack(row) for row in zip(*rows)]


@implements("Scan")
def run_scan(
    body, given, *captured, num_scan_inputs, scan_input_axes=None,
    scan_input_directions=None, scan_output_axes=None, scan_output_directions=None,
    outputs=1, opset=9, directions=None,
):  # fmt: skip
    """A graph for each place of a dimension, with a state that it hands on.

    Args:
        body: a module of states, then one row of each scanned input.
        given: states, then scanned inputs.
        captured: what it takes from around.
    """
    if opset < 9:
        made = _scan_batch(
            body, given[1:], captured, num_scan_inputs, directions, outputs
        )
        return tuple(made) if outputs > 1 else made[0]
    count = len(given) - num_scan_inputs
    state, scanned = list(given[:count]), given[count:]
    axes = scan_input_axes or [0] * num_scan_inputs
    backward = scan_input_directions or [0] * num_scan_inputs
    rows: list = [[] for _ in range(outputs - count)]
    for at in range(scanned[0].shape[axes[0]]):
        parts = [_row(*one, at, back) for *one, back in zip(scanned, axes, backward)]
        made = _results(body(*state, *parts, *captured))
        state = made[:count]
        for row, one in zip(rows, made[count:]):
            row.append(one)
    out_axes = scan_output_axes or [0] * len(rows)
    transposed = scan_output_directions or [0] * len(rows)
    stacked = [
        rl.stack(row[::-1] if back else row, axis)
        for row, axis, back in zip(rows, out_axes, transposed)
    ]
    results = state + stacked
    return tuple(results) if outputs > 1 else results[0]


# -- sequences ---------------------------------------------------------------------------


@implements("SequenceConstruct")
def sequence_construct(*tensors):
    """Tensors in a list."""
    return list(tensors)


@implements("SequenceEmpty")
def sequence_empty(dtype=1):
    """A list of nothing."""
    return []


@implements("SequenceLength")
def sequence_length(sequence):
    """How many there are."""
    return rl.tensor(len(sequence), dtype=rl.int64)


@implements("SequenceAt")
def sequence_at(sequence, position):
    """One of them."""
    return sequence[integers(position)[0]]


@implements("SequenceInsert")
def sequence_insert(sequence, tensor, position=None):
    """One more, at the end by itself."""
    made = list(sequence)
    at = len(made) if position is None else integers(position)[0]
    made.insert(at, tensor)
    return made


@implements("SequenceErase")
def sequence_erase(sequence, position=None):
    """One less, the last by itself."""
    made = list(sequence)
    del made[-1 if position is None else integers(position)[0]]
    return made


@implements("ConcatFromSequence")
def concat_from_sequence(sequence, axis, new_axis=0):
    """One after another, or side by side."""
    return rl.stack(sequence, axis) if new_axis else rl.cat(sequence, axis)


@implements("SplitToSequence")
def split_to_sequence(x, split=None, axis=0, keepdims=1):
    """Parts of a dimension in a list."""
    if split is None:
        made = list(x.split(1, axis))
        return made if keepdims else [one.squeeze(axis) for one in made]
    sizes = integers(split)
    one_size = not isinstance(split, rl.Tensor) or split.dim() == 0
    return list(x.split(sizes[0] if one_size else sizes, axis))


@implements("SequenceMap")
def sequence_map(body, given, *captured, outputs=1):
    """A graph for each of a list."""
    rows: list = [[] for _ in range(outputs)]
    for at in range(len(given[0])):
        parts = [one[at] if isinstance(one, list) else one for one in given]
        for row, one in zip(rows, _results(body(*parts, *captured))):
            row.append(one)
    return tuple(rows) if outputs > 1 else rows[0]


# -- values that may be missing -----------------------------------------------------------


@implements("Optional")
def optional(value=None, type=None):
    """The value, or nothing."""
    return value


@implements("OptionalHasElement")
def optional_has_element(value=None):
    """Whether there is one."""
    return rl.tensor(value is not None)


@implements("OptionalGetElement")
def optional_get_element(value):
    """The value that is there."""
    if value is None:
        raise OnnxLoadError("the optional value is missing")
    return value
