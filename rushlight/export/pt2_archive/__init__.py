"""Files of several exported programs."""

__all__: list[str] = []
