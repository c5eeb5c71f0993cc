"""The elements of several epochs behind one another."""

__all__ = ["CyclingIterator"]


class CyclingIterator:
    """The elements of several epochs behind one another.

    Args:
        n: how many epochs.
        generator_fn: called with an epoch; gives its iterator.
        start_epoch: the first.

    >>> list(CyclingIterator(2, lambda epoch: iter([epoch, 5])))
    [0, 5, 1, 5]
    """

    def __init__(self, n, generator_fn, start_epoch=0):
        self._n, self._epoch, self._generator_fn = n, start_epoch, generator_fn
        self._iter = generator_fn(start_epoch)

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            try:
                return next(self._iter)
            except StopIteration:
                if self._epoch >= self._n - 1:
                    raise
                self._epoch += 1
                self._iter = self._generator_fn(self._epoch)
