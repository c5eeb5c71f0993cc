"""How machines come together: handlers of a store's rounds, by the name of a backend."""

from rushlight.distributed.elastic.rendezvous import api
from rushlight.distributed.elastic.rendezvous.api import *

__all__ = api.__all__
