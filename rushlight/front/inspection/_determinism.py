"""The operator that makes two runs of one program differ."""

import rushlight
from rushlight.inspection._comparison import Comparison
from rushlight.inspection._recording import digest_of, tensors_in
from rushlight.inspection._traps import RunRecorder


class _ExactRecorder(RunRecorder):
    """Keeps a digest of all elements, too."""

    def _kept(self, values):
        records = super()._kept(values)
        tensors = tensors_in(self.library, values)
        for record, tensor in zip(records, tensors, strict=True):
            record.digest = digest_of(tensor)
        return records


def find_nondeterminism(function, *arguments, runs=2, seed=0):
    """Runs a function several times, and finds the first operator that differs.

    Each run begins with the same seed. An operator is the culprit where it was given the
    same bits and gives others: of an order of sums that changes, of memory that nobody
    wrote, of a generator of its own.

    Args:
        function: what to run; it must leave its arguments as they are.
        arguments: what it is given.
        runs: how often it runs.
        seed: of each run.

    Returns:
        a `Comparison` of the first run with one that differs, whose `first_difference`
        is the culprit, or None where all runs are the same bits.

    Raises:
        ValueError: fewer than two runs.

    >>> import random
    >>> import rushlight as rl
    >>> find_nondeterminism(lambda: rl.rand(3).exp()) is None
    True
    >>> found = find_nondeterminism(lambda: rl.ones(1) * random.random())
    >>> found.first_difference[0].name
    'aten.mul.Tensor'
    """
    if runs < 2:
        raise ValueError(f"find_nondeterminism: there are no two runs in {runs}")
    first = None
    for _ in range(runs):
        rushlight.manual_seed(seed)
        with _ExactRecorder(limit=float("inf")) as run:
            function(*arguments)
        if first is None:
            first = run.records
            continue
        comparison = Comparison(first, run.records)
        if comparison.first_difference or any(comparison.unmatched):
            return comparison
    return None
