"""How machines fail to come together."""


class RendezvousError(Exception):
    """Machines have not come together."""


class RendezvousClosedError(RendezvousError):
    """The job is over: nobody comes together any more."""


class RendezvousTimeoutError(RendezvousError):
    """Too few machines have come in time."""


class RendezvousConnectionError(RendezvousError):
    """The store where machines meet cannot be reached."""


class RendezvousStateError(RendezvousError):
    """What is known of a round cannot be read."""


class RendezvousGracefulExitError(RendezvousError):
    """This machine was not taken, and is to end well."""
