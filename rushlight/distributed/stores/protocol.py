"""Messages between a store's server and its clients: a method and its fields.

A message is its length, a byte (the method, or how it went) and fields, each with a
length before it. Fields are octets; nothing that is read is ever run.
"""

import enum
import math
import struct

LENGTH = struct.Struct("<I")
LARGEST = 1 << 28


class Method(enum.IntEnum):
    """What a client asks for."""

    PING = 0
    SET = 1
    GET = 2
    WAIT = 3
    ADD = 4
    COMPARE_SET = 5
    CHECK = 6
    DELETE = 7
    NUM_KEYS = 8
    LIST_KEYS = 9
    APPEND = 10
    MULTI_SET = 11
    QUEUE_PUSH = 12
    QUEUE_POP = 13
    QUEUE_LEN = 14


# How many fields a request has: as many, or that many and others behind them.
FIELDS = {
    Method.PING: (0, False),
    Method.SET: (2, False),
    Method.GET: (1, True),
    Method.WAIT: (1, True),
    Method.ADD: (2, False),
    Method.COMPARE_SET: (3, False),
    Method.CHECK: (0, True),
    Method.DELETE: (1, False),
    Method.NUM_KEYS: (0, False),
    Method.LIST_KEYS: (0, False),
    Method.APPEND: (2, False),
    Method.MULTI_SET: (0, True),
    Method.QUEUE_PUSH: (2, False),
    Method.QUEUE_POP: (2, False),
    Method.QUEUE_LEN: (1, False),
}


class Status(enum.IntEnum):
    """How it went."""

    DONE = 0
    TIMEOUT = 1
    WRONG_VALUE = 2
    EMPTY = 3


def pack(kind, fields=()):
    """The octets of a message.

    Args:
        kind: a ``Method`` or a ``Status``.
        fields: octets of each field.
    """
    parts = [bytes([kind])]
    for field in fields:
        parts += (LENGTH.pack(len(field)), field)
    body = b"".join(parts)
    return LENGTH.pack(len(body)) + body


def unpack(body):
    """The kind and the fields of a message without its length.

    Raises:
        ValueError: lengths do not fit.
    """
    start, fields = 1, []
    while start < len(body):
        if start + 4 > len(body):
            raise ValueError("a message of a store ends inside a length")
        (size,) = LENGTH.unpack_from(body, start)
        start += 4
        if start + size > len(body):
            raise ValueError("a message of a store ends inside a field")
        fields.append(bytes(body[start : start + size]))
        start += size
    return body[0], fields


def request_of(kind, fields):
    """The method of a request whose fields are as many as it takes.

    Args:
        kind: the octet that stands for the method.
        fields: octets of each field.

    Raises:
        ValueError: there is no such method, or it takes more fields or fewer.
    """
    method = Method(kind)
    count, may_have_more = FIELDS[method]
    if len(fields) < count or (len(fields) > count and not may_have_more):
        raise ValueError(f"{method.name} has {len(fields)} fields, not {count}")
    return method


def patience_of(field):
    """How many seconds a request may wait.

    Raises:
        ValueError: that is no number, or none that ends.
    """
    patience = float(field)
    if not math.isfinite(patience):
        raise ValueError(f"a request cannot wait {patience} seconds")
    return patience


def read_message(buffer):
    """Take the first whole message out of a ``bytearray``.

    Args:
        buffer: octets that have come so far.

    Returns:
        Its kind and fields; None while it is not complete.

    Raises:
        ValueError: it is no message of a store.
    """
    if len(buffer) < 4:
        return None
    (size,) = LENGTH.unpack_from(buffer)
    if not 0 < size <= LARGEST:
        raise ValueError(f"a message of a store has {size} octets")
    if len(buffer) < 4 + size:
        return None
    body = bytes(buffer[4 : 4 + size])
    del buffer[: 4 + size]
    return unpack(body)
