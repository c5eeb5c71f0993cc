"""Small things that launchers and their programs need."""

import os
import socket
from string import Template

__all__ = ["get_env_variable_or_raise", "get_socket_with_port", "macros"]


def get_env_variable_or_raise(env_name):
    """A variable of the environment.

    Args:
        env_name: its name.

    Raises:
        ValueError: it is not set.
    """
    found = os.environ.get(env_name)
    if found is None:
        raise ValueError(f"Environment variable {env_name} expected, but not set")
    return found


def get_socket_with_port():
    """A socket that listens at a free port of this machine; the caller closes it."""
    for family, kind, protocol, _, _ in socket.getaddrinfo(
        "localhost", None, socket.AF_UNSPEC, socket.SOCK_STREAM
    ):
        made = socket.socket(family, kind, protocol)
        try:
            made.bind(("localhost", 0))
            made.listen(0)
        except OSError:
            made.close()
            continue
        return made
    raise RuntimeError("Failed to create a socket")


class macros:
    """What stands for a process's own numbers among a program's arguments."""

    local_rank = "${local_rank}"

    @staticmethod
    def substitute(args, local_rank):
        """Arguments with the numbers in their place.

        Args:
            args: the arguments.
            local_rank: the process's number on its machine.

        >>> macros.substitute(["--rank", "${local_rank}"], "2")
        ['--rank', '2']
        """
        return [
            Template(each).safe_substitute(local_rank=local_rank)
            if isinstance(each, str)
            else each
            for each in args
        ]
