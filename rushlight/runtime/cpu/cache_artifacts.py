"""The kernels that a process has, as bytes that another one takes into its cache."""

import os
import tempfile

from rushlight.runtime.cpu import code_cache


def packed_kernels() -> bytes | None:
    """The machine code of the kernels that this process has used, as one file.

    None where there is none, or no directory that it was written to.
    """
    images = {}
    shared = code_cache._packed_entries()
    for digest in list(code_cache._kernels):
        for suffix in (code_cache.SUFFIX, code_cache.NOTE_SUFFIX):
            data = code_cache._read(code_cache._path(digest, suffix))
            data = data or shared.get(digest)
            if data is not None and code_cache._is_sound(bytes(data), digest):
                images[digest] = bytes(data)
                break
    return code_cache.joined(images) if images else None


def take_kernels(data: bytes) -> list:
    """Puts kernels into the cache: damaged ones are passed over.

    They are machine code, which runs when it is asked for: bytes from somebody else are to
    be trusted like a program of theirs.

    Args:
        data: of `packed_kernels`.

    Returns:
        The keys of what was taken.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "pack")
        with open(path, "wb") as file:
            file.write(data)
        pack = code_cache.Pack(path)
        images = {key: bytes(pack.get(key)) for key in pack.rows}
        del pack
    taken = []
    for key, image in images.items():
        if not code_cache._is_sound(image, key):
            continue
        note = code_cache._is_note(image, key)
        path = code_cache._path(
            key, code_cache.NOTE_SUFFIX if note else code_cache.SUFFIX
        )
        if path and (os.path.exists(path) or code_cache.write_atomically(path, image)):
            taken.append(key.hex())
    return taken
