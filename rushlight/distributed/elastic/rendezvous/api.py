"""How machines come together: handlers of a store's rounds, by the name of a backend."""

import socket
from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import timedelta

from rushlight.distributed.elastic.rendezvous.errors import (
    RendezvousClosedError,
    RendezvousConnectionError,
    RendezvousError,
    RendezvousGracefulExitError,
    RendezvousStateError,
    RendezvousTimeoutError,
)
from rushlight.distributed.elastic.rendezvous.rounds import Limits, Rounds
from rushlight.distributed.errors import DistError
from rushlight.distributed.stores import PrefixStore, TCPStore

__all__ = [
    "RendezvousClosedError",
    "RendezvousConnectionError",
    "RendezvousError",
    "RendezvousGracefulExitError",
    "RendezvousHandler",
    "RendezvousHandlerRegistry",
    "RendezvousInfo",
    "RendezvousParameters",
    "RendezvousStateError",
    "RendezvousStoreInfo",
    "RendezvousTimeoutError",
    "rendezvous_handler_registry",
]

DEFAULT_PORT = 29400


@dataclass
class RendezvousStoreInfo:
    """Where the processes of a round meet.

    Args:
        master_addr, master_port: the address and the port.
    """

    MASTER_ADDR_KEY = "MASTER_ADDR"
    MASTER_PORT_KEY = "MASTER_PORT"
    master_addr: str
    master_port: int


class RendezvousInfo:
    """Machines that have come together.

    Args:
        store: where they meet; keys of the round alone.
        rank: this machine's number.
        world_size: the number of machines.
        bootstrap_store_info: a `RendezvousStoreInfo`.
    """

    def __init__(self, store, rank, world_size, bootstrap_store_info):
        self.store, self.rank, self.world_size = store, rank, world_size
        self.bootstrap_store_info = bootstrap_store_info


class RendezvousHandler(ABC):
    """Brings machines together, round after round."""

    @abstractmethod
    def get_backend(self):
        """The name of the backend."""

    @property
    def use_agent_store(self):
        """Whether processes meet at the store of their launchers."""
        return False

    @abstractmethod
    def next_rendezvous(self):
        """Come together; a `RendezvousInfo`."""

    @abstractmethod
    def is_closed(self):
        """Whether the job is over."""

    @abstractmethod
    def set_closed(self):
        """End the job, for all machines."""

    @abstractmethod
    def num_nodes_waiting(self):
        """How many machines wait for the next round."""

    @abstractmethod
    def get_run_id(self):
        """The run's name."""

    @abstractmethod
    def shutdown(self):
        """Give back what the handler holds; whether that went well."""


class RendezvousParameters:
    """What a handler is made of.

    Args:
        backend: the name of the backend.
        endpoint: where machines meet, as ``host:port``.
        run_id: the run's name.
        min_nodes, max_nodes: how many machines.
        local_addr: this machine's address.
        kwargs: settings of the backend: ``timeout``, ``last_call_timeout``, ``is_host``,
            ``keep_alive_interval``, ``keep_alive_max_attempt``, ``rank``.

    Raises:
        ValueError: there is no backend, or no such number of machines.
    """

    def __init__(
        self, backend, endpoint, run_id, min_nodes, max_nodes, local_addr=None, **kwargs
    ):
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        if min_nodes < 1:
            raise ValueError(
                f"The minimum number of rendezvous nodes ({min_nodes}) must be greater "
                "than zero."
            )
        if max_nodes < min_nodes:
            raise ValueError(
                f"The maximum number of rendezvous nodes ({max_nodes}) must be greater "
                "than or equal to the minimum number of rendezvous nodes "
                f"({min_nodes})."
            )
        self.backend, self.endpoint, self.run_id = backend, endpoint, run_id
        self.min_nodes, self.max_nodes = min_nodes, max_nodes
        self.local_addr, self.config = local_addr, kwargs

    def get(self, key, default=None):
        """A setting.

        Args:
            key: its name.
            default: what to give where it is not there.
        """
        return self.config.get(key, default)

    def get_as_bool(self, key, default=None):
        """A setting that is true or false, a text of either, or 1 or 0.

        Args:
            key: its name.
            default: what to give where it is not there.

        Raises:
            ValueError: it is something else.
        """
        value = self.get(key, default)
        if value is None or isinstance(value, bool):
            return value
        text = str(value).lower()
        if text in ("1", "true", "t", "yes", "y"):
            return True
        if text in ("0", "false", "f", "no", "n"):
            return False
        raise ValueError(
            f"The rendezvous configuration option '{key}' does not represent a valid "
            "boolean value."
        )

    def get_as_int(self, key, default=None):
        """A setting that is a whole number.

        Args:
            key: its name.
            default: what to give where it is not there.

        Raises:
            ValueError: it is something else.
        """
        value = self.get(key, default)
        try:
            return value if value is None else int(value)
        except ValueError as error:
            raise ValueError(
                f"The rendezvous configuration option '{key}' does not represent a valid "
                "integer value."
            ) from error


class StoreRendezvous(RendezvousHandler):
    """Machines that meet at a store that one of them serves.

    Args:
        parameters: a `RendezvousParameters`.
    """

    def __init__(self, parameters):
        self._parameters = parameters
        host, _, port = parameters.endpoint.rpartition(":")
        self._host = (host or parameters.endpoint or "localhost").strip("[]")
        self._port = int(port) if host else DEFAULT_PORT
        limits = Limits(
            parameters.min_nodes,
            parameters.max_nodes,
            float(parameters.get("timeout", parameters.get("join_timeout", 600))),
            float(parameters.get("last_call_timeout", 30)),
            float(parameters.get("keep_alive_interval", 5)),
            int(parameters.get("keep_alive_max_attempt", 3)),
        )
        self._server = self._meet(limits.join)
        self._store = PrefixStore(f"rendezvous/{parameters.run_id}", self._server)
        own = parameters.local_addr or socket.gethostname()
        self._rounds = Rounds(
            self._store, limits, own, parameters.get_as_int("rank", None)
        )
        self._round = None

    def _meet(self, patience):
        serves = self._parameters.get_as_bool("is_host", None)
        options = {"timeout": timedelta(seconds=patience), "wait_for_workers": False}
        for is_server in [True, False] if serves is None else [serves]:
            try:
                return TCPStore(self._host, self._port, None, is_server, **options)
            except (DistError, OSError) as error:
                last = error
        raise RendezvousConnectionError(
            f"The connection to the store at {self._host}:{self._port} has failed: {last}"
        ) from last

    def get_backend(self):
        """The name of the backend."""
        return self._parameters.backend

    @property
    def use_agent_store(self):
        """Whether processes meet at the store of their launchers: they do."""
        return True

    def next_rendezvous(self):
        """Come together, in a new round where this machine has been in one.

        Returns:
            A `RendezvousInfo`.
        """
        if self._round is not None:
            self._rounds.reopen(self._round.number)
        self._round = found = self._rounds.join()
        store = PrefixStore(f"round/{found.number}", self._store)
        place = RendezvousStoreInfo(self._host, self._server.port)
        return RendezvousInfo(store, found.rank, len(found.facts), place)

    def is_closed(self):
        """Whether the job is over."""
        return bool(self._rounds.state()["closed"])

    def set_closed(self):
        """End the job, for all machines."""
        self._rounds.close("it was closed")

    def num_nodes_waiting(self):
        """How many machines wait for the next round."""
        return self._rounds.waiting()

    def get_run_id(self):
        """The run's name."""
        return self._parameters.run_id

    def shutdown(self):
        """End the job; whether the store could still be told."""
        self._rounds.stop()
        try:
            self.set_closed()
        except (DistError, RuntimeError):
            return False
        return True


class RendezvousHandlerRegistry:
    """What makes a handler, by the name of its backend."""

    def __init__(self):
        self._makers: dict = {}

    def register(self, backend, creator):
        """Name one more backend.

        Args:
            backend: its name.
            creator: called with a `RendezvousParameters`; gives a handler.

        Raises:
            ValueError: there is one of that name.
        """
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        if self._makers.get(backend, creator) is not creator:
            raise ValueError(
                f"The rendezvous backend '{backend}' cannot be registered with "
                f"'{creator}' as it is already registered with "
                f"'{self._makers[backend]}'."
            )
        self._makers[backend] = creator

    def create_handler(self, params):
        """A handler.

        Args:
            params: a `RendezvousParameters`.

        Raises:
            ValueError: there is no such backend.
        """
        maker = self._makers.get(params.backend)
        if maker is None:
            raise ValueError(
                f"The rendezvous backend '{params.backend}' is not registered. Did you "
                "forget to call `register`?"
            )
        return maker(params)


rendezvous_handler_registry = RendezvousHandlerRegistry()
for _name in ("c10d", "static"):
    rendezvous_handler_registry.register(_name, StoreRendezvous)
