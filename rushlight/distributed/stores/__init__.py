"""Where processes meet: key-value stores in memory, in a file and over sockets."""

from rushlight.distributed.stores.base import PrefixStore, Store
from rushlight.distributed.stores.file import FileStore
from rushlight.distributed.stores.memory import HashStore
from rushlight.distributed.stores.tcp import TCPStore

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]
