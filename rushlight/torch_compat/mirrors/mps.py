"""Apple's GPUs: there is no backend for them."""

from rushlight._stubs import no_devices, refusing

__all__ = [
    "current_allocated_memory",
    "device_count",
    "driver_allocated_memory",
    "empty_cache",
    "get_rng_state",
    "is_available",
    "manual_seed",
    "recommended_max_memory",
    "seed",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "synchronize",
]


is_available, device_count = no_devices(__name__)


def manual_seed(seed):
    """Seed the device's generator; without a device, nothing happens."""


def seed():
    """Seed the device's generator at random; without a device, nothing happens."""


def _refusal(inner):
    def refuse():
        raise RuntimeError(f"Cannot execute {inner}() without MPS backend.")

    return refuse


for _name, _inner in {
    "synchronize": "deviceSynchronize",
    "empty_cache": "emptyCache",
    "get_rng_state": "getDefaultGenerator",
    "set_rng_state": "getDefaultGenerator",
    "current_allocated_memory": "getCurrentAllocatedMemory",
    "driver_allocated_memory": "getDriverAllocatedMemory",
    "recommended_max_memory": "getRecommendedMaxMemory",
    "set_per_process_memory_fraction": "setMemoryFraction",
}.items():
    globals()[_name] = refusing(
        __name__, _name, _refusal(_inner), "RuntimeError: there is no such device."
    )
