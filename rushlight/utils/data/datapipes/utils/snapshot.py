"""Pipes wound forward to where others were."""

import rushlight as rl
from rushlight.utils.data.datapipes._hook_iterator import _SnapshotState
from rushlight.utils.data.datapipes.datapipe import IterDataPipe
from rushlight.utils.data.graph_settings import apply_random_seed


def _simple_graph_snapshot_restoration(
    datapipe: IterDataPipe, n_iterations: int, rng=None
) -> None:
    """Reads samples and drops them, so that the next iterator begins after them.

    Args:
        datapipe: the last of the pipes.
        n_iterations: how many, as ``_number_of_samples_yielded`` of the other says.
        rng: the generator that the pipes are seeded from, in its first state.

    Raises:
        RuntimeError: it has been done already, or there are not so many samples.
    """
    if datapipe._snapshot_state is _SnapshotState.Restored:
        raise RuntimeError(
            "Snapshot restoration cannot be applied. You can only restore simple snapshot "
            "to the graph if your graph has not been restored."
        )
    datapipe.reset()
    apply_random_seed(datapipe, rl.default_generator if rng is None else rng)
    iterator = iter(datapipe)
    for _ in range(n_iterations):
        try:
            next(iterator)
        except StopIteration as error:
            raise RuntimeError(
                f"Fast-forward {datapipe} by {n_iterations} iterations exceeds the number "
                "of samples available."
            ) from error
    datapipe._fast_forward_iterator = iterator
    datapipe._snapshot_state = _SnapshotState.Restored
