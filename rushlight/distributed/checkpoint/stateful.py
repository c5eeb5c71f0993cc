"""Objects that give their state and take it back."""

from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Stateful", "StatefulT"]


@runtime_checkable
class Stateful(Protocol):
    """An object with ``state_dict`` and ``load_state_dict``."""

    def state_dict(self) -> dict[str, Any]:
        """The state, as values by name."""

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state back.

        Args:
            state_dict: values by name.
        """


StatefulT = TypeVar("StatefulT", bound=Stateful)
