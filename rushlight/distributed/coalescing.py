"""Several collectives asked for at once."""

from contextlib import contextmanager

from rushlight.distributed.world import world

_open: dict = {}


class CoalescedWork:
    """The works of one block of collectives."""

    def __init__(self):
        self.works: list = []

    def append(self, work):
        """Add a work."""
        if work and work not in self.works:
            self.works.append(work)

    def wait(self):
        """Wait for all."""
        for work in self.works:
            work.wait()


def is_open(group):
    """Whether collectives of a group are being collected.

    Args:
        group: the group.
    """
    return bool(_open) and group in _open


def add(group, method, *args):
    """Keep a collective until the block ends.

    Args:
        group: the group.
        method: the group's method.
        args: its arguments, without ``async_op``.
    """
    _open[group].append((method, args))


@contextmanager
def coalescing_manager(group=None, device=None, async_ops=False):
    """Collect the collectives of a block, and run them one after another at its end.

    Args:
        group: the group; all processes without it.
        device: without effect: the tensors say it.
        async_ops: whether the block ends at once; then its value has ``wait``.
    """
    world.membership(group)
    chosen = world.default if group is None else group
    if chosen in _open:
        raise ValueError(
            "ProcessGroup has non-empty op list at the start of coalescing"
        )
    _open[chosen] = []
    manager = CoalescedWork()
    try:
        yield manager
    finally:
        asked = _open.pop(chosen)
    with chosen._together():
        for method, args in asked:
            manager.append(method(*args, async_op=True))
    if not async_ops:
        manager.wait()
