"""Archives of models: a zip file with a manifest that has the checksum of each file.

Reading one runs nothing. What has code in it (a factory of an eager model, a handler of
its own) is refused unless the reader allows code.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import zipfile
from pathlib import Path

SUFFIX = ".rlm"
MANIFEST = "MANIFEST.json"
FORMAT = 1
KINDS = ("exported", "scripted", "onnx", "eager")
LARGEST_MANIFEST = 1 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_BARE = {".pt2": "exported", ".pt": "scripted", ".pth": "scripted", ".onnx": "onnx"}


class ArchiveError(RuntimeError):
    """An archive that is damaged, foreign, or has what the reader does not allow."""


def check_name(name, what="name"):
    """The name, where it is one that paths and addresses can have.

    Args:
        name: of a model or a version.
        what: which of both, for the message.

    Raises:
        ArchiveError: it has other characters, or is longer than 128.

    >>> check_name("resnet18")
    'resnet18'
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ArchiveError(
            f"{what} {name!r}: letters, digits, '.', '_' and '-' make a {what}, "
            "128 at most, and a letter or digit is first"
        )
    return name


def pack(
    path,
    name,
    model,
    *,
    version="1.0",
    kind=None,
    handler="tensor",
    factory=None,
    files=(),
    **options,
):
    """Writes an archive.

    Args:
        path: where to; ``.rlm`` is the usual ending.
        name: what the model is called.
        model: the file of the model; of an eager model its weights.
        version: which one it is.
        kind: ``exported``, ``scripted``, ``onnx`` or ``eager``; by default as the file's
            name ends.
        handler: ``tensor``, ``image_classification``, ``text_classification``, or
            ``file.py:Class``, which the reader has to allow.
        factory: ``file.py:function`` that makes an eager model.
        files: further files: code, names of classes, a vocabulary.
        options: what the handler is told, and ``batch_size``, ``max_batch_delay``,
            ``response_timeout``, ``min_workers``.

    Returns:
        The path.

    Raises:
        ArchiveError: a name that cannot be one, or an unknown kind.

    >>> import os, tempfile
    >>> import rushlight as rl
    >>> folder = tempfile.mkdtemp()
    >>> model = os.path.join(folder, "line.pt")
    >>> rl.save(rl.nn.Linear(2, 1).state_dict(), model)
    >>> path = pack(os.path.join(folder, "line.rlm"), "line", model, kind="scripted")
    >>> sorted(Archive(path).manifest["files"])
    ['line.pt']
    """
    given = {"handler": handler, "factory": factory, "options": options}
    given |= {"name": check_name(name), "version": check_name(version, "version")}
    model = Path(model)
    kind = kind or ("eager" if factory else _BARE.get(model.suffix))
    if kind not in KINDS:
        raise ArchiveError(f"{model.name}: kind {kind!r} is none of {', '.join(KINDS)}")
    return _write(path, model, files, {**given, "kind": kind, "model": model.name})


def _write(path, model, files, manifest):
    """Writes the files and the manifest, with their checksums."""
    contents = {file.name: file.read_bytes() for file in (model, *map(Path, files))}
    manifest["format"] = FORMAT
    manifest["files"] = {each: _digest(data) for each, data in contents.items()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        file.writestr(MANIFEST, json.dumps(manifest, indent=1, sort_keys=True))
        for each, data in contents.items():
            file.writestr(each, data)
    return str(path)


def _digest(data):
    return hashlib.sha256(data).hexdigest()


class Archive:
    """An archive that was read: its manifest, and its files where their checksums hold.

    Args:
        path: the archive, or a file of a model without one (``.pt2``, ``.pt``, ``.onnx``).
        allow_code: whether code of the archive may run.

    Attributes:
        manifest: names, kind, handler, options and checksums.

    Raises:
        ArchiveError: it is damaged, of a newer format, or has code that is not allowed.
    """

    def __init__(self, path, allow_code=False):
        self.path, self.allow_code = Path(path), allow_code
        kind = _BARE.get(self.path.suffix)
        try:
            if kind is not None:
                self.file = None
                self.manifest = self._bare(kind)
            else:
                self.file = zipfile.ZipFile(self.path)
                self.manifest = self._manifest()
        except (OSError, zipfile.BadZipFile, KeyError, ValueError) as error:
            raise self.fault(f"is no archive of a model ({error})") from error
        self._check()

    def fault(self, words):
        """The exception for what is wrong with the archive."""
        return ArchiveError(f"{self.path.name}: {words}")

    def _bare(self, kind):
        return {
            "format": FORMAT,
            "name": self.path.stem,
            "version": "1.0",
            "kind": kind,
            "model": self.path.name,
            "handler": "tensor",
            "factory": None,
            "options": {},
            "files": {self.path.name: _digest(self.path.read_bytes())},
        }

    def _manifest(self):
        info = self.file.getinfo(MANIFEST)
        if info.file_size > LARGEST_MANIFEST:
            raise self.fault(f"its {MANIFEST} has {info.file_size} bytes")
        manifest = json.loads(self.file.read(info))
        if not isinstance(manifest, dict) or not isinstance(
            manifest.get("format"), int
        ):
            raise self.fault(f"its {MANIFEST} says no format")
        if manifest["format"] > FORMAT:
            raise self.fault(
                f"has format {manifest['format']}, and this version reads up to "
                f"{FORMAT}: update rushlight"
            )
        for key in ("name", "version", "kind", "model", "handler", "files"):
            if key not in manifest:
                raise self.fault(f"its {MANIFEST} has no {key!r}")
        return manifest

    def _check(self):
        manifest = self.manifest
        check_name(manifest["name"])
        check_name(manifest["version"], "version")
        if manifest["kind"] not in KINDS:
            raise self.fault(f"its kind {manifest['kind']!r} is none of {KINDS}")
        if manifest["model"] not in manifest["files"]:
            raise self.fault(f"its model {manifest['model']!r} is not among its files")
        code = self.code()
        if code and not self.allow_code:
            raise self.fault(
                f"has code ({', '.join(code)}), which is not run unless allowed: "
                "start with --allow-code where you trust who made it"
            )
        if self.file is not None:
            listed, present = set(manifest["files"]), set(self.file.namelist())
            if listed != present - {MANIFEST}:
                other = sorted(listed ^ (present - {MANIFEST}))
                raise self.fault(f"its files are not those of its manifest: {other}")
        for name in manifest["files"]:
            if name != os.path.basename(name) or name in ("", ".", ".."):
                raise self.fault(f"a file's name is {name!r}")

    def code(self):
        """What of the archive is code: ``file.py:name`` of factory and handler."""
        given = (self.manifest.get("factory"), self.manifest["handler"])
        return [each for each in given if each and ":" in each]

    @property
    def options(self):
        """What the handler and the server are told."""
        return self.manifest.get("options") or {}

    def read(self, name):
        """The bytes of a file.

        Raises:
            ArchiveError: there is none, or its checksum does not hold.
        """
        if name not in self.manifest["files"]:
            raise self.fault(f"has no file {name!r}")
        try:
            data = self.path.read_bytes() if self.file is None else self.file.read(name)
        except (OSError, zipfile.BadZipFile, KeyError) as error:
            raise self.fault(f"{name} cannot be read ({error})") from error
        if _digest(data) != self.manifest["files"][name]:
            raise self.fault(
                f"{name} is not what was packed: its checksum is another. Pack it again"
            )
        return data

    def open(self, name):
        """A file in memory, to be read from its start."""
        return io.BytesIO(self.read(name))

    def verify(self):
        """Reads every file once.

        Raises:
            ArchiveError: a checksum does not hold.
        """
        for name in self.manifest["files"]:
            self.read(name)

    def load_code(self, entry):
        """What ``file.py:name`` names; the file runs.

        Raises:
            ArchiveError: code is not allowed, or there is nothing of that name.
        """
        file, _, name = entry.partition(":")
        if not self.allow_code:
            raise self.fault(f"{entry} is code, which is not allowed")
        scope = {"__name__": f"{self.manifest['name']}_{Path(file).stem}"}
        exec(compile(self.read(file), f"{self.path.name}/{file}", "exec"), scope)
        if name not in scope:
            raise self.fault(f"{file} defines no {name!r}")
        return scope[name]
