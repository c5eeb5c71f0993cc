"""Files with several exported programs, each under its name."""

import dataclasses
from typing import Any

from rushlight.export._archive import (
    SerializeError,
    open_archive,
    read_extra,
    read_program,
    write_archive,
)
from rushlight.export.exported_program import ExportedProgram
from rushlight.export.pt2_archive.constants import EXTRA_DIR, MODELS_DIR

__all__ = ["PT2ArchiveContents", "is_pt2_package", "load_pt2", "package_pt2"]


@dataclasses.dataclass
class PT2ArchiveContents:
    """What a file of programs holds.

    Args:
        exported_programs: the programs by name.
        aoti_runners: compiled libraries by name: none is read from such files.
        extra_files: further contents by name, as texts.
    """

    exported_programs: dict[str, ExportedProgram]
    aoti_runners: dict[str, Any]
    extra_files: dict[str, Any]


def package_pt2(
    f,
    *,
    exported_programs=None,
    aoti_files=None,
    extra_files=None,
    opset_version=None,
    pickle_protocol=2,
    executorch_files=None,
):
    """Writes programs into one file, which PyTorch reads, too.

    Args:
        f: a path, or a file open for writing in binary mode.
        exported_programs: an `ExportedProgram`, which is called ``model``, or a dict of
            them by name.
        aoti_files: refused: compiled libraries are files of their own here.
        extra_files: further contents by name, texts or bytes.
        opset_version: kept for PyTorch's programs; ``pickle_protocol`` too.
        executorch_files: refused.

    Returns:
        ``f``.

    Raises:
        AssertionError: there is nothing to write.
        NotImplementedError: there are compiled libraries.

    >>> import io, rushlight as rl
    >>> program = rl.export.export(rl.nn.ReLU(), (rl.ones(2),))
    >>> file = package_pt2(io.BytesIO(), exported_programs={"one": program})
    >>> _ = file.seek(0)
    >>> list(load_pt2(file).exported_programs)
    ['one']
    """
    if aoti_files or executorch_files:
        raise NotImplementedError(
            "package_pt2: libraries are not put into files of programs\n"
            "  remedy: rushlight.export.aot_compile writes a library of its own"
        )
    if not (exported_programs or extra_files):
        raise AssertionError(
            "No value passed in for `exported_programs`, `aoti_files`, and "
            "`extra_files`, implying that you do not plan on saving anything."
        )
    if isinstance(exported_programs, ExportedProgram):
        exported_programs = {"model": exported_programs}
    for name, one in (exported_programs or {}).items():
        if not isinstance(one, ExportedProgram):
            raise TypeError(
                f"package_pt2: the program {name!r} must be an instance of "
                f"'ExportedProgram', got '{type(one).__name__}' instead"
            )
    write_archive(f, exported_programs or {}, extra_files)
    return f


def is_pt2_package(serialized_model):
    """Whether a file, or bytes, are a file of programs.

    Args:
        serialized_model: a path, or the bytes of a file.
    """
    import io

    source = serialized_model
    if isinstance(source, (bytes, bytearray)):
        source = io.BytesIO(bytes(source))
    try:
        reader, names = open_archive(source)
    except SerializeError:
        return False
    return "archive_format" in names and reader.get_record("archive_format") == b"pt2"


def load_pt2(
    f,
    *,
    expected_opset_version=None,
    run_single_threaded=False,
    num_runners=1,
    device_index=-1,
    load_weights_from_disk=False,
):
    """The programs of a file that `package_pt2`, or PyTorch, wrote.

    Nothing in the file is run, and what does not fit together is refused.

    Args:
        f: a path, or a file open for reading in binary mode.
        expected_opset_version: kept for PyTorch's programs; the others too.

    Returns:
        a `PT2ArchiveContents`.

    Raises:
        SerializeError: the file holds no programs, or not whole ones.
    """
    reader, names = open_archive(f)
    found = [
        name[len(MODELS_DIR) : -len(".json")]
        for name in reader.get_all_records()
        if name.startswith(MODELS_DIR) and name.endswith(".json")
    ]
    extra = [
        name[len(EXTRA_DIR) :]
        for name in reader.get_all_records()
        if name.startswith(EXTRA_DIR)
    ]
    return PT2ArchiveContents(
        {name: read_program(reader, names, name) for name in found},
        {},
        {name: read_extra(reader, name) for name in extra},
    )
