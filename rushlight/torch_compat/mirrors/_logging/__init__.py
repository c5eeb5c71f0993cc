"""Which messages about programs and kernels are written; see `rushlight.core.logs`."""

from rushlight.core import logs

__all__ = ["set_logs"]


def set_logs(*, all=None, modules=None, **wanted):
    """Switches messages on by their names, and those not named off.

    Where ``RUSHLIGHT_LOGS`` or ``TORCH_LOGS`` is set, it does nothing, as in PyTorch.

    Args:
        all: whether all of them are wanted.
        modules: names of modules with levels; they have no messages of their own here.
        wanted: ``graph_breaks=True``, ``output_code=True``, ...; levels of `logging`
            count as wanted.

    Raises:
        TypeError: there is no such log.
        ValueError: there is no such module.

    >>> set_logs(graph_breaks=True)
    >>> set_logs()
    """
    if logs.has_environment():
        return
    for name in wanted:
        if not logs.is_known(name):
            raise TypeError(f"set_logs() got an unexpected keyword argument {name!r}")
    for name in modules or ():
        try:
            logs.names_of(name)
        except ValueError as error:
            raise ValueError(
                f"Unrecognized log or artifact name passed to set_logs: {name}"
            ) from error
    named = [name for name, value in wanted.items() if value]
    logs.set_wanted([*named, *(["all"] if all else [])])
