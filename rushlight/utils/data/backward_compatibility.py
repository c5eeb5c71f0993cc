"""What programs before shares were told by the loader named."""

import warnings


def worker_init_fn(worker_id) -> None:
    """Does nothing: a loader tells each worker its share."""
    warnings.warn(
        "Usage of `backward_compatibility.worker_init_fn` is deprecated as `DataLoader` "
        "automatically applies sharding in every worker",
        FutureWarning,
        stacklevel=2,
    )
