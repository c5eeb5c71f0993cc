"""Modules whose parameters are spread in place: not available yet."""

from __future__ import annotations

from rushlight.distributed import _unavailable

__all__ = [
    "FSDPModule",
    "UnshardHandle",
    "fully_shard",
    "register_fsdp_forward_method",
    "share_comm_ctx",
]


class FSDPModule:
    """A module whose parameters are spread: there is none.

    Raises:
        NotImplementedError: always.
    """

    def __new__(cls, *args, **kwargs):
        _unavailable("fsdp.FSDPModule")


class UnshardHandle:
    """Parameters that are being gathered."""

    def wait(self):
        """Returns at once: nothing is spread."""


def fully_shard(module, **options):
    """Spread a module's parameters over the processes of a mesh.

    Raises:
        NotImplementedError: always.
    """
    _unavailable("fsdp.fully_shard")


def register_fsdp_forward_method(module, method_name):
    """Gather the parameters of a spread module for another method, too.

    For a module that is not spread there is nothing to do.

    >>> import rushlight as rl
    >>> register_fsdp_forward_method(rl.nn.Linear(1, 1), "forward")
    """


def share_comm_ctx(modules):
    """Have spread modules share what they send by.

    Raises:
        ValueError: one is not spread.
    """
    for module in modules:
        raise ValueError(f"Expects list of FSDPModules but got {type(module)}")
