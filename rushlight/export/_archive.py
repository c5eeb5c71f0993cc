"""Exported programs as files: ``.pt2``, as PyTorch 2.13 writes them."""

import io
import json
import os
import warnings

import rushlight as rl
from rushlight.core.tensor import Tensor
from rushlight.export._deserialize import (
    Reader,
    SerializeError,
    checked_path,
    dtype_of,
    whole,
)
from rushlight.export._serialize import program_as_json, tensor_meta
from rushlight.export._tokens import without_tokens
from rushlight.export.exported_program import ExportedProgram
from rushlight.io import interop
from rushlight.io.interop import frombuffer
from rushlight.nn.parameter import Parameter
from rushlight.operators import call
from rushlight.serialization._records import PyTorchFileReader, PyTorchFileWriter

_NAME = "model"  # of a program that is alone
_MODEL = "models/{}.json"
_WEIGHTS = "data/weights/{}_weights_config.json"
_CONSTANTS = "data/constants/{}_constants_config.json"
_SAMPLE = "data/sample_inputs/{}.pt"
_EXTRA = "extra/"


def save(ep, f, *, extra_files=None, opset_version=None, pickle_protocol=2):
    """Writes a program, with its tensors, into a file that PyTorch reads, too.

    Args:
        ep: the `ExportedProgram`.
        f: a path, or a file open for writing in binary mode.
        extra_files: further contents by name, texts or bytes.
        opset_version: kept for PyTorch's programs; ``pickle_protocol`` too.

    Raises:
        TypeError: ``ep`` is no program.
        NotImplementedError: it has a step or a value that files cannot have.

    >>> import io, rushlight as rl
    >>> program = rl.export.export(rl.nn.Linear(2, 1), (rl.ones(3, 2),))
    >>> file = io.BytesIO()
    >>> save(program, file)
    >>> _ = file.seek(0)
    >>> str(list(load(file).graph.nodes)[-2].target)
    'aten.linear.default'
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got "
            f"'{type(ep).__name__}' instead."
        )
    if isinstance(f, (str, os.PathLike)) and not os.fspath(f).endswith(".pt2"):
        warnings.warn(
            f"Expect archive file to be a file ending in .pt2, but is {os.fspath(f)}",
            stacklevel=2,
        )
    write_archive(f, {_NAME: ep}, extra_files)


def write_archive(f, programs, extra_files=None):
    """Writes programs, each under its name, into one file.

    Args:
        f: a path, or a file open for writing in binary mode.
        programs: an `ExportedProgram` for each name.
        extra_files: further contents by name, texts or bytes.
    """
    texts = {
        name: json.dumps(program_as_json(ep), allow_nan=False).encode()
        for name, ep in programs.items()
    }
    writer = PyTorchFileWriter(f)

    def record(name, data):
        writer.write_record(name, data, len(data))

    weights, constants = {}, {}  # records that are written, by what they hold
    for name, ep in programs.items():
        _write_program(record, name, ep, texts[name], weights, constants)
    for name, data in (extra_files or {}).items():
        record(_EXTRA + name, data.encode() if isinstance(data, str) else bytes(data))
    record("archive_format", b"pt2")
    record("archive_version", b"0")
    record("byteorder", b"little")
    writer.write_end_of_file()


def _write_program(record, name, ep, text, weights, constants):
    state = {
        spec.target: tensor
        for spec in ep.graph_signature.input_specs
        if (tensor := ep.tensor_of(spec)) is not None and spec.target in ep.state_dict
    }
    state = {**ep.state_dict, **state}
    prefixes = "data/weights/weight_", "data/constants/tensor_"
    _write_tensors(record, state, prefixes[0], _WEIGHTS.format(name), weights)
    _write_tensors(
        record, ep.constants, prefixes[1], _CONSTANTS.format(name), constants
    )
    record(_MODEL.format(name), text)
    if ep.example_inputs is None:
        return
    try:
        sample = io.BytesIO()
        rl.save(ep.example_inputs, sample)
        record(_SAMPLE.format(name), sample.getvalue())
    except Exception as error:  # classes of the program's own
        warnings.warn(
            f"the arguments of the recording are left out of the file: {error}",
            stacklevel=4,
        )


def _write_tensors(record, tensors, prefix, config, written):
    """Writes the memory of tensors, each once, and the list of what they show of it.

    Args:
        written: where others were written before; those of these are added.
    """
    found, kept = {}, []
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise NotImplementedError(f"files have no constants like {type(tensor)}")
        plain = tensor.detach().cpu()
        if plain.is_conj() or plain.is_neg():
            plain = plain.clone()
        storage = plain.untyped_storage()
        key = storage.data_ptr(), storage.nbytes()
        if key not in written or not storage.nbytes():
            written[key] = f"{prefix.rpartition('/')[2]}{len(set(written.values()))}"
            data = memoryview(interop.storage_buffer(storage)).cast("B")
            record(f"{prefix.rpartition('/')[0]}/{written[key]}", data)
            kept.append(storage)  # whose address is the memory's name
        found[name] = {
            "path_name": written[key],
            "is_param": isinstance(tensor, Parameter),
            "use_pickle": False,
            "tensor_meta": tensor_meta(plain.requires_grad_(tensor.requires_grad)),
        }
    record(config, json.dumps({"config": found}).encode())


def load(f, *, extra_files=None, expected_opset_version=None):
    """The program that `save`, or PyTorch, wrote into a file.

    The file may be a stranger's: nothing in it is run, and what does not fit together
    is refused.

    Args:
        f: a path, or a file open for reading in binary mode.
        extra_files: a dict whose keys are names; the contents are put into it.
        expected_opset_version: kept for PyTorch's programs.

    Raises:
        SerializeError: the file holds no program, or not a whole one.

    >>> import io
    >>> try:
    ...     load(io.BytesIO(b"no program"))
    ... except RuntimeError as error:
    ...     print(str(error)[:32])
    this is no archive of a program:
    """
    reader, names = open_archive(f)
    if _MODEL.format(_NAME) not in names:
        raise SerializeError(f"the archive has no {_MODEL.format(_NAME)}")
    program = read_program(reader, names, _NAME)
    for name in extra_files or {}:
        extra_files[name] = read_extra(reader, name)
    return program


def open_archive(f):
    """What reads a file of programs, and the names of its records.

    Args:
        f: a path, or a file open for reading in binary mode.

    Raises:
        SerializeError: the file is none.
    """
    try:
        reader = PyTorchFileReader(f)
        return reader, set(reader.get_all_records())
    except (RuntimeError, ValueError, EOFError) as error:
        raise SerializeError(f"this is no archive of a program: {error}") from error


def read_program(reader, names, name):
    """One program of a file.

    Args:
        reader, names: what `open_archive` gave.
        name: the program's.

    Raises:
        SerializeError: it is not whole.
    """
    try:
        model = json.loads(reader.get_record(_MODEL.format(name)))
        without_tokens(model["graph_module"])
        state = _read_tensors(reader, "data/weights/", _WEIGHTS.format(name))
        constants = _read_tensors(reader, "data/constants/", _CONSTANTS.format(name))
        sample = None
        if _SAMPLE.format(name) in names:
            sample = _read_sample(reader.get_record(_SAMPLE.format(name)))
        return Reader(model).program(state, constants, sample)
    except SerializeError:
        raise
    except _DAMAGE as error:
        raise SerializeError(
            f"the program in the archive is not whole: {type(error).__name__}: {error}"
        ) from error


def read_extra(reader, name):
    """One of the further contents of a file, as text.

    Args:
        reader: what `open_archive` gave.
        name: the content's.

    Raises:
        SerializeError: it is not there, or no text.
    """
    try:
        return reader.get_record(_EXTRA + name).decode()
    except _DAMAGE as error:
        raise SerializeError(
            f"the program in the archive is not whole: {type(error).__name__}: {error}"
        ) from error


_DAMAGE = (
    ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError,
    NotImplementedError, RecursionError, RuntimeError, StopIteration, SyntaxError,
    TypeError, ValueError,
)  # fmt: skip


def _read_sample(data):
    try:
        return rl.load(io.BytesIO(data), weights_only=True)
    except Exception:  # it has classes that are not read
        return None


def _read_tensors(reader, folder, config):
    """The tensors of a list, by name; those of one record share it."""
    listed = json.loads(reader.get_record(config))["config"]
    found, blobs = {}, {}
    for name, one in listed.items():
        checked_path(name)
        meta, path = one["tensor_meta"], one["path_name"]
        if one["use_pickle"]:
            raise SerializeError(f"the tensor {name} is a pickle, which is not read")
        dtype = dtype_of(meta["dtype"])
        sizes = [whole(size["as_int"]) for size in meta["sizes"]]
        strides = [whole(size["as_int"]) for size in meta["strides"]]
        offset = whole(meta["storage_offset"]["as_int"])
        key = path, meta["dtype"]
        if key not in blobs:
            data = reader.get_record(folder + path)
            if len(data) % dtype.itemsize:
                raise SerializeError(f"the record {path} is cut off")
            blobs[key] = (
                frombuffer(bytearray(data), dtype=dtype)
                if len(data)
                else call.empty(0, dtype=dtype)
            )
        tensor = call.as_strided(blobs[key], sizes, strides, offset)
        same = next(
            (
                other
                for other in found.values()
                if other.data_ptr() == tensor.data_ptr()
                and other.shape == tensor.shape
                and other.stride() == tensor.stride()
                and tensor.numel()
            ),
            None,
        )
        if same is not None:
            tensor = same
        elif one["is_param"]:
            tensor = Parameter(tensor, requires_grad=bool(meta["requires_grad"]))
        found[name] = tensor
    return found
