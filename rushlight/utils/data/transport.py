"""Messages between processes whose tensors travel through anonymous shared memory.

A message is its header and its pickled body over a pipe, and, where it holds tensors,
the descriptor of one memory file with all their bytes. The file has no name: the
kernel frees it with the last process that maps it, however that process ends.
"""

import io
import mmap
import os
import pickle
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

import rushlight as rl
from rushlight.core.facts import with_requires_grad
from rushlight.io import interop

ALIGNMENT = 64


class _Packer(pickle.Pickler):
    """Pickles a value, its tensors laid end to end in one segment beside it."""

    def __init__(self, file):
        super().__init__(file, pickle.HIGHEST_PROTOCOL)
        self.chunks: list = []
        self.positions: dict[int, tuple] = {}
        self.size = 0

    def persistent_id(self, value):
        if not isinstance(value, rl.Tensor):
            return None
        if id(value) not in self.positions:
            self.positions[id(value)] = self._place(value)
        return self.positions[id(value)]

    def _place(self, tensor):
        if tensor.requires_grad and not tensor.is_leaf:
            raise RuntimeError(
                "Cowardly refusing to serialize non-leaf tensor which requires_grad, "
                "since autograd does not support crossing process boundaries.\n"
                "  If you just want to transfer the data, call detach() on the tensor "
                "before serializing (e.g., putting it on the queue)."
            )
        dense = tensor.detach().contiguous()
        offset = self.size
        # The tensor itself is kept as well, so that its id stays its own.
        self.chunks.append((offset, dense, tensor))
        self.size += -(-dense.numel() * dense.element_size() // ALIGNMENT) * ALIGNMENT
        return dense.dtype, offset, tuple(dense.shape), tensor.requires_grad


class _Unpacker(pickle.Unpickler):
    """Reads a body back; its tensors are windows on the segment, not copies."""

    def __init__(self, file, segment):
        super().__init__(file)
        self.segment = segment

    def persistent_load(self, place):
        dtype, offset, shape, requires_grad = place
        tensor = interop.from_buffer(self.segment, dtype, shape, offset)
        return with_requires_grad(tensor, requires_grad)


def send(connection: Connection, header: tuple, value: Any) -> None:
    """Sends a header of plain values and a value that may hold tensors."""
    body = io.BytesIO()
    packer = _Packer(body)
    packer.dump(value)
    descriptor = _fill_segment(packer) if packer.size else -1
    try:
        connection.send_bytes(pickle.dumps((header, packer.size)))
        connection.send_bytes(body.getbuffer())
        if descriptor >= 0:
            reduction.send_handle(connection, descriptor, 0)
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _fill_segment(packer):
    descriptor = os.memfd_create("rushlight-batch", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, packer.size)
        with mmap.mmap(descriptor, packer.size) as segment:
            for offset, dense, _ in packer.chunks:
                data = interop.buffer_of(dense)
                segment[offset : offset + len(data)] = data
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def receive(connection: Connection) -> tuple[tuple, Any]:
    """The next message's header and value.

    Raises:
        EOFError: the other end is closed.
    """
    header, size = pickle.loads(connection.recv_bytes())
    body = connection.recv_bytes()
    if not size:
        return header, _Unpacker(io.BytesIO(body), b"").load()
    descriptor = reduction.recv_handle(connection)
    try:
        segment = mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)
    return header, _Unpacker(io.BytesIO(body), segment).load()
