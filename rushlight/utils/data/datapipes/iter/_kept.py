"""Pipes that keep some attributes when they are pickled, and begin again."""


class KeptByName:
    """What a pipe's class adds: ``_state`` names what is kept, beside how far it was read."""

    _state: list[str] = []

    def __getstate__(self):
        kept = [getattr(self, name) for name in self._state]
        return self._hooked((*kept, self._number_of_samples_yielded))

    def __setstate__(self, state):
        *kept, number = state
        for name, value in zip(self._state, kept, strict=True):
            setattr(self, name, value)
        self.reset()
        self._number_of_samples_yielded = number
