"""Which device a storage in a file belongs to, and how it gets there."""

import rushlight as rl
from rushlight._typed_storage import TypedStorage
from rushlight.core import naming
from rushlight.core.storage import UntypedStorage


def _cpu_tag(storage):
    return "cpu" if storage.device.type == "cpu" else None


def _cpu_place(storage, location):
    return storage if location == "cpu" else None


def _meta_tag(storage):
    return "meta" if storage.device.type == "meta" else None


def _meta_place(storage, location):
    if location != "meta":
        return None
    return UntypedStorage(storage.nbytes(), device="meta")


def _gpu_tag(storage):
    device = storage.device
    return f"cuda:{device.index or 0}" if device.type == "cuda" else None


def _on_cuda(storage, number):
    """A storage brought to a device.

    Raises:
        RuntimeError: there are not so many.
    """
    count = rl.cuda.device_count()
    number = int(number) if number else rl.cuda.current_device()
    if number >= count:
        raise RuntimeError(
            f"Attempting to deserialize object on CUDA device {number} but "
            f"{naming.package}.cuda.device_count() is {count}. Please use "
            f"{naming.package}.load with map_location to map your storages to an "
            "existing device."
        )
    plain = storage._untyped_storage if isinstance(storage, TypedStorage) else storage
    moved = bytes_of(plain).to(f"cuda:{number}").untyped_storage()
    if plain is storage:
        return moved
    return TypedStorage(wrap_storage=moved, dtype=storage.dtype, _internal=True)


def bytes_of(storage):
    """A storage as a tensor of bytes, wherever it is."""
    empty = rl.empty(0, dtype=rl.uint8, device=storage.device)
    return empty.set_(storage, 0, (storage.nbytes(),))


def on_host(storage):
    """A storage's bytes in the host's memory: itself where it lies there."""
    if storage.device.on_host:
        return storage
    return bytes_of(storage).cpu().untyped_storage()


def _gpu_place(storage, location):
    """Brings a storage to a device; refuses a device that is not here, as PyTorch does."""
    kind, _, number = location.partition(":")
    if kind not in ("cuda", "mps", "xpu", "hpu", "mtia", "privateuseone"):
        return None
    if number and not number.isdigit():
        return None
    if kind == "cuda" and storage is not None and rl.cuda.is_available():
        return _on_cuda(storage, number)
    name = kind.upper()
    raise RuntimeError(
        f"Attempting to deserialize object on a {name} device but "
        f"{naming.package}.{kind}.is_available() is False. If you are running on a "
        f"CPU-only machine, please use {naming.package}.load with "
        f"map_location={naming.package}.device('cpu') to map your storages to the CPU."
    )


# Priority, what names a storage's device, and what brings one to a device of that name.
_package_registry: list[tuple] = [
    (10, _cpu_tag, _cpu_place),
    (20, _gpu_tag, _gpu_place),
    (22, _meta_tag, _meta_place),
]


def register_package(priority, tagger, deserializer) -> None:
    """Teaches ``save`` and ``load`` a kind of device.

    Args:
        priority: lower ones are asked first; the CPU has 10.
        tagger: from a storage to its device's name, or None if it is another's.
        deserializer: from a storage and a device's name to the storage there, or None.

    >>> torch.serialization.register_package(90, lambda storage: None, lambda *given: None)
    >>> _ = _package_registry.pop()
    """
    _package_registry.append((priority, tagger, deserializer))
    _package_registry.sort(key=lambda entry: entry[0])


def location_tag(storage) -> str:
    """The name of a storage's device in a file.

    Args:
        storage: the storage.

    Raises:
        RuntimeError: nobody knows the device.

    >>> torch.serialization.location_tag(torch.ones(2).untyped_storage())
    'cpu'
    """
    for _, tagger, _ in _package_registry:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError(f"don't know how to determine data location of {_kind(storage)}")


def default_restore_location(storage, location):
    """A storage brought to the device of that name.

    Args:
        storage: what was read, in the host's memory.
        location: the name of a device, such as ``"cpu"`` or ``"cuda:0"``.

    Raises:
        RuntimeError: the device is not here, or nobody knows it.

    >>> storage = torch.ones(2).untyped_storage()
    >>> torch.serialization.default_restore_location(storage, "cpu").device
    device(type='cpu')
    """
    for _, _, deserializer in _package_registry:
        result = deserializer(storage, location)
        if result is not None:
            return result
    raise RuntimeError(
        f"don't know how to restore data location of {_kind(storage)} (tagged with "
        f"{location})"
    )


def _kind(storage):
    name = "TypedStorage" if isinstance(storage, TypedStorage) else "UntypedStorage"
    return f"{naming.package}.storage.{name}"


def validate_cuda_device(location) -> int:
    """The number of a CUDA device by its name.

    Args:
        location: the name, such as ``"cuda:0"``.

    Raises:
        RuntimeError: there is none here.

    >>> import pytest
    >>> with pytest.raises(RuntimeError):
    ...     torch.serialization.validate_cuda_device("cuda:99")
    """
    _gpu_place(None, "cuda")
    raise AssertionError("not reached")


def restorer(map_location):
    """What puts a storage where the caller of ``load`` wants it.

    Args:
        map_location: a device, its name, a dict from the file's names, or a function.
    """
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, location: default_restore_location(
            storage, map_location.get(location, location)
        )
    if isinstance(map_location, bytes):
        map_location = map_location.decode()
    if isinstance(map_location, (str, rl.device)):
        wanted = str(map_location)
        return lambda storage, location: default_restore_location(storage, wanted)

    def restore(storage, location):
        moved = map_location(storage, location)
        return default_restore_location(storage, location) if moved is None else moved

    return restore
