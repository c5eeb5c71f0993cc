"""From a path to a program: the passes in their order."""

from rushlight.codegen.frontend.nest_loops import is_long, nodes
from rushlight.codegen.frontend.pointwise import _symbol
from rushlight.core import logs
from rushlight.core.dtype import get_default_dtype
from rushlight.core.storage import UntypedStorage
from rushlight.core.window import make_tensor
from rushlight.graph import (
    attention_fusion,
    constant_folding,
    epilogues,
    fusion,
    unread_results,
)
from rushlight.graph.fusion import Group
from rushlight.graph.memory_plan import Holding, Item, listening, peak_of
from rushlight.graph.output_code import code_of
from rushlight.graph.program import Instruction
from rushlight.graph.steps import FRESH, Graph, bytes_needed, window


def plan(tape, leaf, wanted, name):
    """What the program of a path that ends in a call is planned from: its graph and items.

    Args:
        tape: has the storages, by number.
        leaf: the last call.
        wanted: what is wanted of each storage; see `Graph`.
        name: the function's, for the logs.
    """
    graph = Graph.of(leaf, wanted)
    graph.numbers, graph.default_dtype = tuple(tape.params), get_default_dtype()
    if logs.graph.active:
        logs.graph.say(f"{name}:\n{graph}")
    graph.drop_unused()
    unread_results.drop(graph)
    attention_fusion.recognise(graph, name)
    constant_folding.prepare(tape, graph, name)
    parts = grouped(graph, lambda value: window(tape, value))
    parts = epilogues.joined(graph, parts, name)
    if logs.fusion.active:
        log_fusion(name, parts)
    return graph, items_of(graph, parts)


def planned_anew(graph):
    """What the program of some steps is planned from, where there are no storages."""
    own = Graph(graph.steps, graph.wanted, graph.sizes, devices=graph.devices)
    own.drop_unused()
    unread_results.drop(own)
    attention_fusion.recognise(own, "")
    parts = grouped(own, example_of)
    return items_of(own, epilogues.joined(own, parts, ""))


def example_of(value):
    """A tensor that looks like a window, on memory of its own."""
    needed = bytes_needed(value.sizes, value.strides, value.offset, value.dtype)
    storage = UntypedStorage(needed, device=value.device)
    return make_tensor(storage, value.sizes, value.strides, value.offset, value.dtype)


def items_of(graph, parts):
    """What memory is planned of: launches of groups, and operators' calls."""
    items = []
    last = last_touched(parts)
    for number, part in enumerate(parts):
        if isinstance(part, Group):
            wanted_later = {slot for slot in part.writes if last[slot] > number}
            items += launched(graph, part, wanted_later)
        elif not is_free(part):
            items.append(alone(part))
    return items


def build(graph, items, name):
    """The program of what `plan` gave."""
    graph.items, graph.printer = items, code_of
    return listening(graph, items)


def grouped(graph, tape_window):
    """The steps in groups that need no more memory at once than the steps one by one.

    A group runs where its last member stood, and what its first ones read stays until
    then. Where that is too much, groups end sooner.
    """
    members = fusion.members_of(graph.steps, tape_window)
    parts = fusion.grouped(graph.steps, members)
    most = peak_of(graph, graph.steps)
    for share in (8, None):
        if peak_of(graph, parts) <= most:
            break
        limit = most // share if share else 0
        holding = Holding(graph, limit)
        parts = fusion.grouped(graph.steps, members, holding)
    return parts


def is_free(step):
    """Whether a step only shows memory in another way: its results are windows."""
    kinds = {kind for kind, _ in step.call.results}
    return step.pure and FRESH not in kinds and bool(step.op.view_or_copy)


def alone(step):
    """A step that runs its operator."""
    slots = [value.slot for value in (*step.reads, *step.writes)]
    return Item(Instruction(step.call, step), slots)


def last_touched(parts):
    """For each storage the number of the last part that reads or writes it."""
    return {slot: number for number, part in enumerate(parts) for slot in part.touched}


def launched(graph, group, read_later):
    """A group as a launch, or as its steps where that is better.

    Args:
        read_later: the storages that it writes and a later part touches.
    """
    lone = len(group.members) == 1
    if group.is_lone_move or lone and group.axes is not None:
        return [alone(group.members[0].step)]
    stored = {slot for slot in group.writes if graph.lives(slot) or slot in read_later}
    try:
        found = fusion.instr_of(group, stored)
    except fusion.TooMany:
        return [alone(member.step) for member in group.members]
    except fusion.FasterUnfused:
        parts = cut(group) or [member.step for member in group.members]
        return launched_each(graph, parts, read_later)
    if found is None:
        return []
    instr, slots = found
    if lone and not instr.is_flat:
        return [alone(group.members[0].step)]
    made = {
        slot for member in group.members for slot in member.step.makes if slot in stored
    }
    asks = [slot for slot in slots if slot in made]
    return [Item(instr, slots, asks, group, stored)]


def cut(group):
    """A group in parts: what takes long before its last reduction, and the rest.

    Returns:
        Groups in the order in which they run; none where its members run one by one.
    """
    members = group.members
    last = max(k for k, one in enumerate(members) if one.axes is not None)
    at = 1 + max((k for k in range(last) if takes_long(members[k])), default=last - 1)
    if not at:
        return []
    halves = members[:at], members[at:]
    return [
        part for half in halves for part in fusion.grouped([m.step for m in half], half)
    ]


def takes_long(member):
    """Whether a member's expression is more than a few instructions."""
    values = [_symbol(f"x{k}", kind) for k, kind in enumerate(member.compute)]
    return any(map(is_long, nodes(fusion.applied(member, values))))


def launched_each(graph, parts, read_later):
    """The parts of a group as launches, one after the other."""
    items = []
    for number, part in enumerate(parts):
        if isinstance(part, Group):
            later = {slot for one in parts[number + 1 :] for slot in one.touched}
            items += launched(graph, part, {*part.writes} & (later | read_later))
        else:
            items.append(alone(part))
    return items


def log_fusion(name, parts):
    """Says which operators became one kernel."""
    for part in parts:
        if isinstance(part, Group):
            ops = ", ".join(member.step.op.name for member in part.members)
            logs.fusion.say(f"{name}: one kernel over {list(part.sizes)}: {ops}")
        else:
            logs.fusion.say(f"{name}: by itself: {part.op}")
