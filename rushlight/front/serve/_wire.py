"""Messages between the server and its workers: a header of JSON, and blocks of bytes."""

import json
import struct

_LENGTH = struct.Struct(">I")


def message(header, blocks=()):
    """The bytes of a message.

    >>> message({"kind": "stop"})[4:]
    b'{"kind": "stop", "sizes": []}'
    """
    text = json.dumps({**header, "sizes": [len(block) for block in blocks]}).encode()
    return b"".join((_LENGTH.pack(len(text)), text, *blocks))


async def read_message(reader):
    """The next message of a stream, as header and blocks.

    Raises:
        IncompleteReadError: the other side is gone.
    """
    (length,) = _LENGTH.unpack(await reader.readexactly(4))
    header = json.loads(await reader.readexactly(length))
    return header, [await reader.readexactly(size) for size in header["sizes"]]


def take_message(file):
    """The next message of a file, or None where the other side is gone."""
    start = file.read(4)
    if len(start) < 4:
        return None
    header = json.loads(file.read(*_LENGTH.unpack(start)))
    return header, [file.read(size) for size in header["sizes"]]
