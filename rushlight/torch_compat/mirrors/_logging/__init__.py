"""Which messages about compiled programs are written; see `rushlight.graph.logs`."""

from rushlight.graph import logs

__all__ = ["set_logs"]


def set_logs(*, all=None, **wanted):
    """Switches messages on by their names, and those not named off.

    Args:
        all: whether all of them are wanted.
        wanted: ``graph_breaks=True``, ``output_code=True``, ...; levels of `logging`
            count as wanted.

    Raises:
        ValueError: there is no such log.

    >>> set_logs(graph_breaks=True)
    >>> set_logs()
    """
    named = [name for name, value in wanted.items() if value]
    logs.set_wanted([*named, *(["all"] if all else [])])
