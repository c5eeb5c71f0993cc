"""Names inside of states of spread modules, and the stages of a pass through them."""

from enum import Enum, auto

from rushlight.distributed.fsdp._fully_shard._fsdp_state import FSDPState

FSDP_WRAPPED_MODULE = "_fsdp_wrapped_module"
FSDP_PREFIX = f"{FSDP_WRAPPED_MODULE}."
FSDP_FLATTENED = "_fsdp_flattened"
_CHECKPOINT_PREFIX = "_checkpoint_wrapped_module."


class TrainingState(Enum):
    """What a spread module does now."""

    IDLE = auto()
    FORWARD_BACKWARD = auto()
    SUMMON_FULL_PARAMS = auto()


class HandleTrainingState(Enum):
    """What the parameters of a spread module are there for now."""

    IDLE = auto()
    FORWARD = auto()
    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()
    SUMMON_FULL_PARAMS = auto()


_FSDPState = FSDPState


def _get_module_fsdp_state(module):
    """The state of a spread module; None of others."""
    inner = getattr(module, FSDP_WRAPPED_MODULE, module)
    return getattr(inner, "_fsdp_state", None)


def _is_fsdp_flattened(tensor) -> bool:
    """Whether a tensor is a parameter that others were put together in."""
    return getattr(tensor, FSDP_FLATTENED, False)


def _has_fsdp_params(state, module) -> bool:
    """Whether a module has spread parameters."""
    return state is not None and bool(state.group.parameters)


def clean_tensor_name(tensor_name: str) -> str:
    """A parameter's name without what wrappers put in it.

    >>> clean_tensor_name("_fsdp_wrapped_module.0._fsdp_wrapped_module.weight")
    '0.weight'
    """
    return tensor_name.replace(FSDP_PREFIX, "").replace(_CHECKPOINT_PREFIX, "")
