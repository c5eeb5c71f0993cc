"""The generators of GPUs: a seed and a place in its stream, for each."""

from rushlight.cuda import _where
from rushlight.runtime.cuda import contexts


def _every():
    """The generators of all devices; none without a device."""
    if not _where.ready():
        return ()
    return tuple(contexts.ctx(n).generator for n in range(contexts.count()))


def manual_seed(seed):
    """Seed the current GPU's generator; without a GPU, nothing happens.

    Args:
        seed: an integer of 64 bits.

    >>> torch.cuda.manual_seed(7)
    """
    seed = int(seed)
    if _where.ready():
        _where.context_for().generator.manual_seed(seed)


def manual_seed_all(seed):
    """Seed every GPU's generator; without a GPU, nothing happens.

    Args:
        seed: an integer of 64 bits.

    >>> torch.cuda.manual_seed_all(7)
    """
    seed = int(seed)
    for generator in _every():
        generator.manual_seed(seed)


def seed():
    """Seed the current GPU's generator at random; without a GPU, nothing happens.

    >>> torch.cuda.seed()
    """
    if _where.ready():
        _where.context_for().generator.seed()


def seed_all():
    """Seed every GPU's generator with one random seed; without a GPU, nothing happens.

    >>> torch.cuda.seed_all()
    """
    chosen = None
    for generator in _every():
        chosen = generator.seed() if chosen is None else chosen
        generator.manual_seed(chosen)


def initial_seed():
    """The seed of the current GPU's generator.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.manual_seed(7)
    ...     assert torch.cuda.initial_seed() == 7
    """
    return _where.context_for().generator.initial_seed()


def get_rng_state(device="cuda"):
    """The state of a GPU's generator, as a tensor of 16 bytes.

    Args:
        device: a GPU; the current one by default.

    Raises:
        AssertionError: there is no GPU.

    >>> if torch.cuda.is_available():
    ...     assert torch.cuda.get_rng_state().shape == (16,)
    """
    import rushlight as rl

    state = _where.context_for(device).generator.state()
    return rl.tensor(list(state), dtype=rl.uint8)


def get_rng_state_all():
    """The states of all GPUs' generators.

    >>> len(torch.cuda.get_rng_state_all()) == torch.cuda.device_count()
    True
    """
    return [get_rng_state(n) for n in range(len(_every()))]


def set_rng_state(new_state, device="cuda"):
    """Set the state of a GPU's generator.

    Args:
        new_state: what `get_rng_state` gave.
        device: a GPU; the current one by default.

    Raises:
        TypeError: it is no tensor of bytes.
        RuntimeError: it has another size.

    >>> if torch.cuda.is_available():
    ...     torch.cuda.set_rng_state(torch.cuda.get_rng_state())
    """
    import rushlight as rl

    generator = _where.context_for(device).generator
    if not isinstance(new_state, rl.Tensor) or new_state.dtype is not rl.uint8:
        raise TypeError("RNG state must be a torch.ByteTensor")
    generator.restore(bytes(new_state.cpu().tolist()))


def set_rng_state_all(new_states):
    """Set the states of all GPUs' generators; without a GPU, nothing happens.

    Args:
        new_states: what `get_rng_state_all` gave.

    >>> torch.cuda.set_rng_state_all(torch.cuda.get_rng_state_all())
    """
    for number, state in enumerate(new_states if _where.ready() else ()):
        set_rng_state(state, number)


def __getattr__(name):
    if name == "default_generators":
        return _every()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
