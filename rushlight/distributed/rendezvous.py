"""How processes find each other: ``env://``, ``tcp://`` and ``file://``."""

import os
from datetime import timedelta
from urllib.parse import parse_qsl, urlencode, urlparse

from rushlight.distributed.constants import default_pg_timeout
from rushlight.distributed.stores import FileStore, PrefixStore, TCPStore

__all__ = ["register_rendezvous_handler", "rendezvous"]

_handlers: dict = {}


def register_rendezvous_handler(scheme, handler):
    """Name what finds the processes for URLs of one more scheme.

    Args:
        scheme: the text before ``://``.
        handler: called with a URL; gives ``(store, rank, world_size)`` again and again.

    Raises:
        RuntimeError: the scheme has one.
    """
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(url, rank=-1, world_size=-1, **kwargs):
    """The stores, ranks and world sizes that a URL leads to, one after another.

    Args:
        url: ``env://``, ``tcp://HOST:PORT`` or ``file:///PATH``.
        rank: this process's number, where the URL does not say it.
        world_size: the number of processes, where the URL does not say it.
        kwargs: ``timeout`` goes to the store.

    Raises:
        RuntimeError: the scheme is not known.
        ValueError: a number is missing.
    """
    if not isinstance(url, (str, bytes)):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    if not isinstance(rank, int):
        raise RuntimeError(f"`rank` must be an integer. {rank}")
    if not isinstance(world_size, int):
        raise RuntimeError(f"`world_size` must be an integer. {world_size}")
    parts = urlparse(url)
    if parts.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    asked = dict(parse_qsl(parts.query))
    if rank != -1:
        asked["rank"] = str(rank)
    if world_size != -1:
        asked["world_size"] = str(world_size)
    whole = parts._replace(query=urlencode(asked)).geturl()
    return _handlers[parts.scheme](whole, **kwargs)


def _split_url(url):
    parts = urlparse(url)
    return parts, dict(parse_qsl(parts.query))


def _lacking(scheme, what):
    return ValueError(
        f"Error initializing torch.distributed using {scheme}:// rendezvous: "
        f"{what} missing"
    )


def _number(scheme, asked, name):
    try:
        return int(asked[name])
    except KeyError:
        raise _lacking(scheme, name.replace("_", " ") + " parameter") from None


def _file(url, **kwargs):
    parts, asked = _split_url(url)
    if not parts.path:
        raise _lacking("file", "path")
    rank = _number("file", asked, "rank")
    world_size = _number("file", asked, "world_size")
    yield FileStore(parts.path, world_size), rank, world_size
    raise RuntimeError("Unable to perform rerendezvous using file:// method")


def _meeting_store(host, port, rank, world_size, timeout):
    """A store whose server is in rank 0, or in the launcher of all."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        # Machines that come or go begin a round, too, which is no restart.
        attempt = os.environ.get("RUSHLIGHT_RENDEZVOUS_ROUND", attempt)
        store = TCPStore(host, port, world_size, False, timeout)
        return PrefixStore(f"/worker/attempt_{attempt}", store)
    return TCPStore(host, port, world_size, rank == 0, timeout, multi_tenant=True)


def _tcp(url, timeout: timedelta = default_pg_timeout, **kwargs):
    parts, asked = _split_url(url)
    if not parts.port:
        raise _lacking("tcp", "port number")
    rank = _number("tcp", asked, "rank")
    world_size = _number("tcp", asked, "world_size")
    store = _meeting_store(parts.hostname, parts.port, rank, world_size, timeout)
    yield store, rank, world_size
    raise RuntimeError("Unable to perform re-rendezvous using tcp:// method")


def _environment(name):
    value = os.environ.get(name)
    if value is None:
        raise ValueError(
            "Error initializing torch.distributed using env:// rendezvous: environment "
            f"variable {name} expected, but not set\n  remedy: start the program with "
            "python -m rushlight.distributed.run, or set it"
        )
    return value


def _env(url, timeout: timedelta = default_pg_timeout, **kwargs):
    _, asked = _split_url(url)
    rank = int(asked["rank"] if "rank" in asked else _environment("RANK"))
    sizes = asked.get("world_size")
    world_size = int(_environment("WORLD_SIZE") if sizes is None else sizes)
    host, port = _environment("MASTER_ADDR"), int(_environment("MASTER_PORT"))
    yield _meeting_store(host, port, rank, world_size, timeout), rank, world_size
    raise RuntimeError("Unable to perform re-rendezvous using env:// method")


register_rendezvous_handler("tcp", _tcp)
register_rendezvous_handler("env", _env)
register_rendezvous_handler("file", _file)
