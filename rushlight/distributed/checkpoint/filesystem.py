"""Checkpoints in a folder: a file for each rank, and ``.metadata``, which comes last.

A checkpoint that is written where one stands already takes other file names; the metadata
goes from one to the other in one step, and the files of the old are removed then.
"""

import dataclasses
import io
import os
import threading
import uuid
import warnings
from abc import ABC, abstractmethod
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

import rushlight as rl
from rushlight.distributed.checkpoint import _codec
from rushlight.distributed.checkpoint.filesystem_records import (
    _StorageInfo,
    _StoragePrefix,
)
from rushlight.distributed.checkpoint.metadata import StorageMeta
from rushlight.distributed.checkpoint.planner import LoadItemType, WriteItemType
from rushlight.distributed.checkpoint.planner_helpers import narrow_tensor_by_index
from rushlight.distributed.checkpoint.staging import BlockingAsyncStager
from rushlight.distributed.checkpoint.storage import (
    StorageReader,
    StorageWriter,
    WriteResult,
)
from rushlight.futures import Future

__all__ = [
    "FileSystem",
    "FileSystemBase",
    "FileSystemReader",
    "FileSystemWriter",
    "SerializationFormat",
]

METADATA = ".metadata"
SUFFIX = ".distcp"
VERSION = "1.0.0"


class SerializationFormat(Enum):
    """How a tensor lies in its file."""

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


class FileSystemBase(ABC):
    """What a checkpoint needs of a system of files."""

    @abstractmethod
    def create_stream(self, path, mode):
        """A context in which a file is open.

        Args:
            path: the file.
            mode: ``rb`` or ``wb``.
        """

    @abstractmethod
    def concat_path(self, path, suffix):
        """A file in a folder.

        Args:
            path: the folder.
            suffix: the file's name.
        """

    @abstractmethod
    def rename(self, path, new_path):
        """Give a file another's name, in whose place it stands then.

        Args:
            path: the file.
            new_path: the name.
        """

    @abstractmethod
    def init_path(self, path):
        """A path as the other methods take it.

        Args:
            path: text or a path.
        """

    @abstractmethod
    def mkdir(self, path):
        """Make a folder, and those above it.

        Args:
            path: the folder.
        """

    @abstractmethod
    def exists(self, path):
        """Whether a file is there.

        Args:
            path: the file.
        """

    @abstractmethod
    def rm_file(self, path):
        """Remove a file.

        Args:
            path: the file.
        """

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """Whether a checkpoint can be there.

        Args:
            checkpoint_id: a path.
        """


class FileSystem(FileSystemBase):
    """The machine's files."""

    @contextmanager
    def create_stream(self, path, mode):
        """A context in which a file is open."""
        with open(self.init_path(path), mode) as stream:
            yield stream

    def concat_path(self, path, suffix):
        """A file in a folder."""
        return self.init_path(path) / suffix

    def init_path(self, path):
        """A ``pathlib.Path``."""
        return Path(path)

    def rename(self, path, new_path):
        """Give a file another's name, in one step."""
        os.replace(path, new_path)

    def mkdir(self, path):
        """Make a folder, and those above it."""
        Path(path).mkdir(parents=True, exist_ok=True)

    def exists(self, path):
        """Whether a file is there."""
        return Path(path).exists()

    def rm_file(self, path):
        """Remove a file."""
        Path(path).unlink()

    def ls(self, path):
        """The paths in a folder.

        Args:
            path: the folder.
        """
        return [str(each) for each in Path(path).iterdir()]

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """Whether a checkpoint can be there: a folder above it is, and may be written."""
        if isinstance(checkpoint_id, Path):
            return True
        if "://" in str(checkpoint_id):
            return False
        return any(
            each.exists() and os.access(each, os.W_OK)
            for each in Path(checkpoint_id).parents
        )


def _sync(stream):
    """Wait until a file is on its disk."""
    stream.flush()
    try:
        os.fsync(stream.fileno())
    except (AttributeError, io.UnsupportedOperation):
        os.sync()


def _sync_folder(path):
    """Wait until the names of a folder are on its disk."""
    try:
        folder = os.open(path, os.O_RDONLY)
    except OSError:
        return  # of a system that has none
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _size(item):
    return 0 if item.tensor_data is None else item.tensor_storage_size() or 0


def _in_files(count, items):
    """Items in as many lists, of nearly equal octets; octets of other values first."""
    if count == 1:
        return [items]
    lists, load = [[] for _ in range(count)], [0] * count
    plain = [each for each in items if each.type is WriteItemType.BYTE_IO]
    for number, item in enumerate(plain):
        lists[number % count].append(item)
    tensors = [each for each in items if each.type is not WriteItemType.BYTE_IO]
    for item in sorted(tensors, key=_size, reverse=True):
        least = load.index(min(load))
        lists[least].append(item)
        load[least] += _size(item)
    return lists


class FileSystemWriter(StorageWriter, BlockingAsyncStager):
    """Writes a checkpoint into a folder.

    Args:
        path: the folder.
        single_file_per_rank: whether a rank writes one file, or one for each value.
        sync_files: whether to wait until all is on the disk.
        thread_count: how many files a rank writes at once.
        per_thread_copy_ahead: without effect on the host.
        cache_staged_state_dict: whether the copy of an ``async_save`` is used again.
        overwrite: whether a checkpoint that is there may be replaced.
        serialization_format: how a tensor lies in its file.

    Raises:
        NotImplementedError: the format is safetensors.
    """

    def __init__(
        self,
        path,
        single_file_per_rank=True,
        sync_files=True,
        thread_count=1,
        per_thread_copy_ahead=10_000_000,
        cache_staged_state_dict=False,
        overwrite=True,
        _extensions=None,
        serialization_format=SerializationFormat.TORCH_SAVE,
    ):
        BlockingAsyncStager.__init__(self, cache_staged_state_dict)
        if serialization_format is not SerializationFormat.TORCH_SAVE or _extensions:
            raise NotImplementedError(
                "FileSystemWriter: tensors are written as save writes them, without "
                "extensions\n  remedy: leave serialization_format and _extensions out"
            )
        self.fs = FileSystem()
        self.path = self.fs.init_path(path)
        self.single_file_per_rank, self.sync_files = single_file_per_rank, sync_files
        self.thread_count, self.overwrite = thread_count, overwrite
        self.per_thread_copy_ahead = per_thread_copy_ahead
        self.serialization_format = serialization_format
        self.save_id = str(uuid.uuid4())
        self.rank, self.use_collectives = None, True
        self._written = []

    def reset(self, checkpoint_id=None):
        """Begin another checkpoint."""
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id)
        self.save_id = str(uuid.uuid4())
        self._written = []

    def set_up_storage_writer(self, is_coordinator, *args, **kwargs):
        """Begin to write."""
        self.rank = kwargs.get("rank")
        self.use_collectives = kwargs.get("use_collectives", True)

    def _metadata_path(self, rank=None):
        name = METADATA if rank is None else f"__{rank}{METADATA}"
        return self.fs.concat_path(self.path, name)

    def prepare_local_plan(self, plan):
        """Make the folder; without other ranks, this one's files bear its number."""
        self.fs.mkdir(self.path)
        if self.fs.exists(self._metadata_path(None if self.use_collectives else 0)):
            if not self.overwrite:
                raise RuntimeError(
                    f"Checkpoint already exists and self.overwrite={self.overwrite}."
                )
            warnings.warn(
                f"Detected an existing checkpoint in {self.path}, overwriting since "
                f"self.overwrite={self.overwrite}. Past version 2.5 of PyTorch, "
                "`overwrite` will default to False. Set this variable to True to "
                "maintain this functionality or False to raise when an existing "
                "checkpoint is found.",
                stacklevel=2,
            )
        if self.rank is not None and not self.use_collectives:
            prefix = _StoragePrefix(f"__{self.rank}_")
            plan = dataclasses.replace(plan, storage_data=prefix)
        return plan

    def prepare_global_plan(self, plans):
        """Each rank's files bear its number."""
        return [
            plan
            if plan.storage_data is not None
            else dataclasses.replace(plan, storage_data=_StoragePrefix(f"__{rank}_"))
            for rank, plan in enumerate(plans)
        ]

    def _fresh_names(self, prefix):
        """Names of files that are not there: those that are belong to a checkpoint."""
        number = 0
        while True:
            name = f"{prefix}{number}{SUFFIX}"
            number += 1
            if not self.fs.exists(self.fs.concat_path(self.path, name)):
                yield name

    def write_data(self, plan, planner):
        """Write this rank's items into its files."""
        if self.single_file_per_rank:
            lists = _in_files(self.thread_count, plan.items)
        else:
            lists = [[item] for item in plan.items]
        names = self._fresh_names(plan.storage_data.prefix)
        work = [(next(names), items) for items in lists if items]
        self._written = [self.fs.concat_path(self.path, name) for name, _ in work]
        results, faults, lock = [], [], threading.Lock()

        def write():
            while True:
                with lock:
                    if not work or faults:
                        return
                    name, items = work.pop(0)
                try:
                    found = self._write_file(name, items, planner)
                except Exception as error:
                    faults.append(error)
                    return
                with lock:
                    results.extend(found)

        threads = [threading.Thread(target=write) for _ in range(self.thread_count - 1)]
        for thread in threads:
            thread.start()
        write()
        for thread in threads:
            thread.join()
        if faults:
            raise faults[0]
        future = Future()
        future.set_result(results)
        return future

    def _write_file(self, name, items, planner):
        results = []
        path = self.fs.concat_path(self.path, name)
        with self.fs.create_stream(path, "wb") as stream:
            for item in items:
                start, data = stream.tell(), planner.resolve_data(item)
                if item.type is WriteItemType.BYTE_IO:
                    stream.write(data.getbuffer())
                else:
                    rl.save(_own_memory(data.detach()), stream)
                length = stream.tell() - start
                info = _StorageInfo(name, start, length)
                results.append(WriteResult(item.index, length, info))
            if self.sync_files:
                _sync(stream)
        return results

    def finish(self, metadata, results):
        """Write the metadata in one step; then nobody needs files of one before."""
        metadata.version = VERSION
        metadata.storage_data = {
            each.index: each.storage_data for listed in results for each in listed
        }
        metadata.storage_meta = self.storage_meta()
        alone = not self.use_collectives and self.rank is not None
        path = self._metadata_path(self.rank if alone else None)
        draft = self.fs.concat_path(self.path, f"{path.name}.tmp")
        try:
            with self.fs.create_stream(draft, "wb") as stream:
                stream.write(_codec.dumps(metadata))
                if self.sync_files:
                    _sync(stream)
        except BaseException:
            if self.fs.exists(draft):
                self.fs.rm_file(draft)
            raise
        self.fs.rename(draft, path)
        if self.sync_files:
            _sync_folder(self.path)
        kept = {info.relative_path for info in metadata.storage_data.values()}
        self._remove_others(kept, f"__{self.rank}_" if alone else "__")

    def _remove_others(self, kept, prefix):
        for path in map(Path, self.fs.ls(self.path)):
            ours = path.name.startswith(prefix) and path.suffix == SUFFIX
            if ours and path.name not in kept:
                self.fs.rm_file(path)

    def abandon(self):
        """Remove the files of this rank: the checkpoint has failed."""
        for path in self._written:
            if self.fs.exists(path):
                self.fs.rm_file(path)
        self._written = []

    def storage_meta(self):
        """Where it is, and which attempt."""
        return StorageMeta(checkpoint_id=self.checkpoint_id, save_id=self.save_id)

    @property
    def checkpoint_id(self):
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """Whether a checkpoint can be there."""
        return FileSystem.validate_checkpoint_id(checkpoint_id)


def _own_memory(tensor):
    """A tensor without the rest of its storage, which a file would hold too."""
    tensor = tensor.cpu()
    if tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes():
        return tensor.clone(memory_format=rl.contiguous_format)
    return tensor


class FileSystemReader(StorageReader):
    """Reads a checkpoint from a folder; no file runs a program.

    Args:
        path: the folder.
    """

    def __init__(self, path, _extension_registry=None):
        self.fs = FileSystem()
        self.path = self.fs.init_path(path)
        self.storage_data = {}
        self.load_id = str(uuid.uuid4())
        self.rank, self.use_collectives = None, True

    def reset(self, checkpoint_id=None):
        """Begin another checkpoint."""
        self.storage_data = {}
        if checkpoint_id:
            self.path = self.fs.init_path(checkpoint_id)
        self.load_id = str(uuid.uuid4())

    def read_data(self, plan, planner):
        """Read this rank's items, each file once."""
        files: dict = {}
        for item in plan.items:
            info = self.storage_data[item.storage_index]
            files.setdefault(info.relative_path, []).append((info, item))
        for name, found in files.items():
            found.sort(key=lambda pair: pair[0].offset)
            with self.fs.create_stream(self._inside(name), "rb") as stream:
                self._read_file(stream, found, planner)
        future = Future()
        future.set_result(None)
        return future

    def _inside(self, name):
        """A file of the checkpoint, which may be in its folder alone."""
        if os.path.isabs(name) or ".." in Path(name).parts:
            raise ValueError(f"{self.path}: {name!r} is outside of the checkpoint")
        return self.fs.concat_path(self.path, name)

    def _read_file(self, stream, found, planner):
        before, tensor = None, None
        for info, item in found:
            if item.type is LoadItemType.BYTE_IO:
                planner.load_bytes(item, self._part(stream, info))
                continue
            if before is not info:
                before = info
                tensor = rl.load(self._part(stream, info), map_location="cpu")
            source = narrow_tensor_by_index(tensor, item.storage_offsets, item.lengths)
            target = planner.resolve_tensor(item).detach()
            if target.shape != source.shape:
                raise AssertionError(
                    f"req {item.storage_index} mismatch sizes {target.size()} vs "
                    f"{source.size()}"
                )
            target.copy_(source)
            planner.commit_tensor(item, target)

    def _part(self, stream, info):
        stream.seek(info.offset)
        octets = stream.read(info.length)
        if len(octets) < info.length:
            raise EOFError(
                f"{self.path}/{info.relative_path}: {info.length} octets wanted at "
                f"{info.offset}, {len(octets)} are there: the file is cut short"
            )
        return io.BytesIO(octets)

    def read_metadata(self, *args, **kwargs):
        """The checkpoint's metadata, or that of one rank."""
        rank = kwargs.get("rank")
        name = METADATA if rank is None else f"__{rank}{METADATA}"
        with self.fs.create_stream(self.fs.concat_path(self.path, name), "rb") as file:
            metadata = _codec.loads(file.read())
        if getattr(metadata, "storage_meta", None) is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata

    def set_up_storage_reader(self, metadata, is_coordinator, *args, **kwargs):
        """Take where each value is."""
        self.storage_data = metadata.storage_data
        self.rank = kwargs.get("rank")
        self.use_collectives = kwargs.get("use_collectives", True)
        if self.storage_data is None:
            raise AssertionError("storage_data must not be None in metadata")

    def prepare_local_plan(self, plan):
        """The plan as it is."""
        return plan

    def prepare_global_plan(self, plans):
        """The plans as they are."""
        return plans

    @property
    def checkpoint_id(self):
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id):
        """Whether a checkpoint can be there."""
        return FileSystem.validate_checkpoint_id(checkpoint_id)
