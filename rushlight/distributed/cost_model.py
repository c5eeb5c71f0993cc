"""What collectives cost on clusters that are not here: schedules run on a model of one.

A message of n octets takes ``latency + n * seconds_per_byte``; messages between machines
share the network interface of each; a reduction takes its own time for each octet. Every
rank has a clock, and a round of a schedule moves it to when its message has come: which
schedule wins is not a formula but what the clocks say.

>>> lan = Cluster(16, 4, within=Link(5e-6, 1e-10), between=Link(3e-5, 1e-9))
>>> times = compare(lan, 1 << 26)
>>> min(times, key=times.get)
'hierarchical'
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import rushlight as rl
from rushlight.core.docstrings import describe_arguments


@dataclass(frozen=True)
class Link:
    """What a message between two ranks takes.

    Args:
        latency: seconds of any message.
        seconds_per_byte: seconds of each octet more.
    """

    latency: float
    seconds_per_byte: float


@dataclass(frozen=True)
class Cluster:
    """Machines with as many ranks each, the last perhaps with fewer.

    Args:
        ranks: how many in all.
        ranks_per_node: how many on each machine.
        within: between ranks of a machine.
        between: between machines, whose ranks share it.
        reduction: seconds of each octet that is reduced.
    """

    ranks: int
    ranks_per_node: int
    within: Link
    between: Link
    reduction: float = 1e-10


class Phase(NamedTuple):
    """Rounds in which every rank receives from the same one.

    Args:
        source: for each rank, the one that it receives from; itself where from none.
        rounds: how many rounds.
        first: called with a round's number; for each rank, the first segment it receives.
        count: how many segments come.
        segments: into how many the array is cut.
        reduces: whether what comes is added to what is there; it replaces it otherwise.
    """

    source: Any
    rounds: int
    first: Any
    count: int
    segments: int
    reduces: bool


def _ring(source, place, size):
    """A ring's two phases.

    Args:
        source: for each rank, the one before it in its ring.
        place: for each rank, its place in its ring.
        size: the ranks of a ring.
    """
    return [
        Phase(source, size - 1, lambda t: (place - t - 1) % size, 1, size, True),
        Phase(source, size - 1, lambda t: (place - t) % size, 1, size, False),
    ]


def ring(cluster):
    """All-reduce along a ring: ``2 (P - 1)`` rounds of a ``P``-th of the array."""
    ranks = rl.arange(cluster.ranks)
    return _ring((ranks - 1) % cluster.ranks, ranks, cluster.ranks)


def direct(cluster):
    """All-reduce in which each rank sends a part to each: Rushlight's between machines."""
    size, ranks = cluster.ranks, rl.arange(cluster.ranks)
    phases = []
    for step in range(1, size):
        source = (ranks + step) % size
        phases.append(Phase(source, 1, lambda t: ranks, 1, size, True))
    for step in range(1, size):
        source = (ranks + step) % size
        phases.append(Phase(source, 1, lambda t, s=source: s, 1, size, False))
    return phases


def tree(cluster):
    """Reduce to rank 0 along a binomial tree, and broadcast along it."""
    size, ranks = cluster.ranks, rl.arange(cluster.ranks)
    zeros, distance, distances = ranks * 0, 1, []
    while distance < size:
        distances.append(distance)
        distance *= 2
    phases = []
    for distance in distances:
        takes = (ranks % (2 * distance) == 0) & (ranks + distance < size)
        source = rl.where(takes, ranks + distance, ranks)
        phases.append(Phase(source, 1, lambda t: zeros, 1, 1, True))
    for distance in reversed(distances):
        takes = ranks % (2 * distance) == distance
        source = rl.where(takes, ranks - distance, ranks)
        phases.append(Phase(source, 1, lambda t: zeros, 1, 1, False))
    return phases


def _halving_doubling(place, rank_at, size):
    """Recursive halving and doubling of groups whose places are below a power of two.

    Args:
        place: for each rank, its place; -1 where it takes no part.
        rank_at: called with places; the ranks that have them, in each rank's group.
        size: the power of two.
    """
    ranks = rl.arange(len(place))
    takes, halving, doubling = place >= 0, [], []
    width = size
    while width > 1:
        half = width // 2
        source = rl.where(takes, rank_at(place ^ half), ranks)
        kept = place // half * half  # the first segment of the half that a place keeps
        sent = kept ^ half  # and of the half that its partner keeps
        halving.append(Phase(source, 1, lambda t, k=kept: k, half, size, True))
        doubling.append(Phase(source, 1, lambda t, k=sent: k, half, size, False))
        width = half
    return halving + doubling[::-1]


def halving_doubling(cluster):
    """Recursive halving, then doubling: ``2 log P`` rounds (Rabenseifner).

    Of ranks that are no power of two, some give theirs to a neighbour before, and get the
    result after.
    """
    size, ranks = cluster.ranks, rl.arange(cluster.ranks)
    power = 1 << (size.bit_length() - 1)
    extra = size - power
    paired = ranks < 2 * extra
    even = ranks % 2 == 0
    place = rl.where(paired, rl.where(even, ranks // 2, -1), ranks - extra)
    zeros = ranks * 0

    def rank_at(place):
        return rl.where(place < extra, place * 2, place + extra)

    phases = _halving_doubling(place, rank_at, power)
    if extra:
        gives = rl.where(paired & even, ranks + 1, ranks)
        gets = rl.where(paired & ~even, ranks - 1, ranks)
        phases.insert(0, Phase(gives, 1, lambda t: zeros, power, power, True))
        phases.append(Phase(gets, 1, lambda t: zeros, power, power, False))
    return phases


def hierarchical(cluster):
    """A ring in each machine, and between machines one for each place in them.

    A machine's ranks reduce-scatter; those of one place halve and double, or go round a
    ring where machines are no power of two; then each machine gathers.

    Args:
        cluster: machines with as many ranks each.

    Raises:
        ValueError: the last machine has fewer.
    """
    size, local = cluster.ranks, cluster.ranks_per_node
    if size % local:
        raise ValueError(f"{size} ranks do not fill machines of {local}")
    ranks, nodes = rl.arange(size), size // local
    place, node = ranks % local, ranks // local
    before = node * local + (place - 1) % local
    scatter, gather = _ring(before, place, local)
    own = (place + 1) % local  # the segment that a rank has reduced in its machine
    if nodes & (nodes - 1):
        across = _ring((ranks - local) % size, node, nodes)
    else:
        across = _halving_doubling(node, lambda nodes: nodes * local + place, nodes)
    inner = [
        each._replace(
            first=lambda t, first=each.first: own * nodes + first(t),
            segments=local * nodes,
        )
        for each in across
    ]
    return [_widen(scatter, nodes), *inner, _widen(gather, nodes)]


def _widen(phase, times):
    """A phase whose segments are cut further."""
    return phase._replace(
        first=lambda t: phase.first(t) * times,
        count=phase.count * times,
        segments=phase.segments * times,
    )


SCHEDULES = {
    "ring": ring,
    "direct": direct,
    "tree": tree,
    "halving-doubling": halving_doubling,
    "hierarchical": hierarchical,
}


def _seconds(cluster, phase, n_bytes):
    """What a round takes each rank that receives, once both sides are ready."""
    ranks = rl.arange(cluster.ranks)
    node, source = ranks // cluster.ranks_per_node, phase.source
    moved = source != ranks
    crosses = moved & (node != node[source])
    count = int(node[-1]) + 1
    comes = rl.bincount(node[crosses], minlength=count)
    goes = rl.bincount(node[source][crosses], minlength=count)
    sharing = rl.maximum(comes[node], goes[node[source]]).double()
    size = n_bytes * phase.count / phase.segments
    near, far = cluster.within, cluster.between
    seconds = rl.where(
        crosses,
        far.latency + size * far.seconds_per_byte * sharing,
        near.latency + size * near.seconds_per_byte,
    )
    if phase.reduces:
        seconds = seconds + size * cluster.reduction
    return rl.where(moved, seconds, 0.0)


def simulate(phases, cluster, n_bytes, start=None):
    """When each rank has the result.

    Args:
        phases: a schedule.
        n_bytes: the array's octets.
        start: when each rank comes to it, in seconds; at once without it.

    Returns:
        A tensor of seconds.

    >>> pair = Cluster(2, 1, Link(0.0, 0.0), Link(1.0, 0.5), reduction=0.0)
    >>> simulate(ring(pair), pair, 4).tolist()
    [4.0, 4.0]
    """
    clocks = rl.zeros(cluster.ranks, dtype=rl.float64) if start is None else start
    for phase in phases:
        seconds, last = _seconds(cluster, phase, n_bytes), None
        for number in range(phase.rounds):
            after = rl.maximum(clocks, clocks[phase.source]) + seconds
            steps = after - clocks
            clocks = after
            if last is not None and rl.allclose(steps, last, rtol=1e-12, atol=0.0):
                if float(steps.max() - steps.min()) <= 1e-12 * float(steps.max()):
                    clocks = clocks + steps * (phase.rounds - 1 - number)
                    break  # all go on alike: no clock overtakes another any more
            last = steps
    return clocks


def compare(cluster, n_bytes, schedules=None):
    """The seconds of each schedule until the last rank has the result.

    Args:
        n_bytes: the array's octets.
        schedules: names; all without it.
    """
    names = SCHEDULES if schedules is None else schedules
    return {
        name: float(simulate(SCHEDULES[name](cluster), cluster, n_bytes).max())
        for name in names
    }


def run(phases, values):
    """Run a schedule on arrays: what each rank has in the end.

    Args:
        phases: the schedule.
        values: a row for each rank, as long as all phases' segments divide.

    >>> pair = Cluster(2, 1, Link(0.0, 0.0), Link(0.0, 0.0))
    >>> run(ring(pair), rl.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[4., 6.],
            [4., 6.]])
    """
    values = values.clone()
    for phase in phases:
        size = values.shape[1] // phase.segments
        for number in range(phase.rounds):
            before, firsts = values.clone(), phase.first(number)
            for rank, source in enumerate(phase.source.tolist()):
                if source == rank:
                    continue
                low = int(firsts[rank]) * size
                into = values[rank, low : low + phase.count * size]
                come = before[source, low : low + phase.count * size]
                into.copy_(into + come if phase.reduces else come)
    return values


describe_arguments(globals(), cluster="the ranks.")
