"""What a process knows of the machine that it is on."""

import os
import socket


def _read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""


def _link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def machine():
    """A name that two processes share where they may share memory and see one another.

    Namespaces of processes, users and networks are part of it: a container is a machine.
    """
    spaces = [_link(f"/proc/self/ns/{name}") for name in ("pid", "net", "user")]
    return "/".join([_read("/proc/sys/kernel/random/boot_id"), *spaces])


def is_stopped(pid):
    """Whether a process of this machine has been stopped, as SIGSTOP does.

    Args:
        pid: its number.
    """
    status = _read(f"/proc/{pid}/stat")
    return status.rpartition(")")[2].split()[:1] == ["T"]


def address_for(peer):
    """The address of this machine that another reaches it at: loopback for its own.

    Args:
        peer: the name or address of the process that all meet at, or None.
    """
    chosen = os.environ.get("RUSHLIGHT_SOCKET_ADDRESS")
    if chosen:
        return chosen
    try:
        found = socket.getaddrinfo(peer or "127.0.0.1", 1, type=socket.SOCK_DGRAM)[0]
        with socket.socket(found[0], socket.SOCK_DGRAM) as probe:
            probe.connect(found[4])  # sends nothing: asks which interface would
            return probe.getsockname()[0]
    except OSError:
        return "127.0.0.1"
