"""Models and weights by name: from a local folder, and files by their address."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import zipfile
from builtins import list as _list
from urllib.parse import urlparse

from rushlight.core.progress import Progress

try:
    from tqdm import tqdm
except ImportError:  # the bar is an extra

    class tqdm(Progress):  # type: ignore[no-redef]
        """A line that tells how far a download has come, where tqdm is not installed."""

        def __init__(self, total=None, disable=None, unit="", **others):
            super().__init__("download", total, unit=unit)
            self.live = self.live and not disable

        def update(self, n=1):
            """Counts what has come."""
            self.add(n)


__all__ = [
    "checksum_of",
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
READ_DATA_CHUNK = 128 * 1024
_chosen: dict = {"folder": None}


def _get_torch_home():
    """The folder for what is downloaded: ``TORCH_HOME``, or one in the user's cache."""
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir():
    """The folder for hub's own files."""
    if os.getenv("TORCH_HUB"):
        import warnings

        warnings.warn(
            "TORCH_HUB is deprecated, please use env TORCH_HOME instead", stacklevel=2
        )
    return _chosen["folder"] or os.path.join(_get_torch_home(), "hub")


def set_dir(d):
    """Chooses the folder for hub's own files.

    Args:
        d: the folder; a tilde stands for the user's own.

    >>> set_dir("models/hub")
    >>> get_dir()
    'models/hub'
    >>> _chosen["folder"] = None
    """
    _chosen["folder"] = os.path.expanduser(d)


def _check_module_exists(name):
    """Whether a module could be imported."""
    return importlib.util.find_spec(name) is not None


def _folder(repo_or_dir, source, name):
    """The local folder that is meant.

    Raises:
        ValueError: the source is neither of the two that there are.
        NotImplementedError: it is a repository on the net.
        FileNotFoundError: the folder has no ``hubconf.py``.
    """
    source = source.lower()
    if source not in ("github", "local"):
        raise ValueError(
            f'Unknown source: "{source}". Allowed values: "github" | "local".'
        )
    if source == "github" and not os.path.isdir(repo_or_dir):
        raise NotImplementedError(
            f"hub.{name}: programs are not fetched from {repo_or_dir!r} on the net and "
            "run\n  remedy: clone the repository, read it, and pass its folder with "
            'source="local"'
        )
    path = os.path.join(repo_or_dir, "hubconf.py")
    if not os.path.isfile(path):
        raise FileNotFoundError(f"hub.{name}: {repo_or_dir} has no hubconf.py")
    return path


def _hubconf(path):
    """The module that lists a repository's models."""
    folder = os.path.dirname(os.path.abspath(path))
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location("hubconf", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    missing = [
        package
        for package in getattr(module, "dependencies", ())
        if not _check_module_exists(package)
    ]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def _entry(module, name):
    found = getattr(module, name, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return found


def load(
    repo_or_dir,
    model,
    *args,
    source="github",
    trust_repo="check",
    force_reload=False,
    verbose=True,
    skip_validation=False,
    checksum=None,
    **kwargs,
):
    """A model from a folder with a ``hubconf.py``.

    Args:
        repo_or_dir: the folder.
        model: the name of a function there.
        args: its arguments.
        source: ``"local"``; programs on the net are not fetched.
        checksum: what ``checksum_of`` says of the folder; it is run only if that is so.

    Raises:
        NotImplementedError: the folder is to be fetched from the net.
        RuntimeError: there is no such model, or a package that it needs is missing.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "hubconf.py").write_text("def net():\\n    return 1\\n")
    ...     torch.hub.load(folder, "net", source="local")
    1
    """
    path = _folder(repo_or_dir, source, "load")
    if checksum is not None:
        found = checksum_of(repo_or_dir)
        if found != checksum.lower():
            raise RuntimeError(
                f"hub.load: {repo_or_dir} is not what it was\n  expected: {checksum}\n"
                f"  found:    {found}\n  remedy: read what has changed, then pass that"
            )
    return _entry(_hubconf(path), model)(*args, **kwargs)


def checksum_of(repo_or_dir) -> str:
    """The SHA-256 of all the files of a folder and of their names.

    What Python and version control keep beside them does not count.

    Args:
        repo_or_dir: the folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     len(checksum_of(folder))
    64
    """
    whole = hashlib.sha256()
    for place, folders, names in os.walk(repo_or_dir):
        folders[:] = sorted(f for f in folders if f not in (".git", "__pycache__"))
        for name in sorted(names):
            path = os.path.join(place, name)
            with open(path, "rb") as file:
                own = hashlib.file_digest(file, "sha256").hexdigest()
            shown = os.path.relpath(path, repo_or_dir).replace(os.sep, "/")
            whole.update(f"{own}  {shown}\n".encode())
    return whole.hexdigest()


def list(
    github, force_reload=False, skip_validation=False, trust_repo="check", verbose=True
):
    """The names of a local folder's models.

    Args:
        github: the folder.
        force_reload, skip_validation, trust_repo, verbose: accepted; nothing is fetched.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "hubconf.py").write_text("def net():\\n    return 1\\n")
    ...     torch.hub.list(folder)
    ['net']
    """
    module = _hubconf(_folder(github, "github", "list"))
    return [
        name
        for name in dir(module)
        if callable(getattr(module, name)) and not name.startswith("_")
    ]


def help(github, model, force_reload=False, skip_validation=False, trust_repo="check"):
    """The description of a local folder's model.

    Args:
        github: the folder.
        model: the name of a function in its ``hubconf.py``.
        force_reload, skip_validation, trust_repo: accepted; nothing is fetched.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "hubconf.py").write_text('def net():\\n    "A net."\\n')
    ...     torch.hub.help(folder, "net")
    'A net.'
    """
    return _entry(_hubconf(_folder(github, "github", "help")), model).__doc__


def download_url_to_file(url, dst, hash_prefix=None, progress=True):
    """Fetches a file, and puts it in place only when it is whole.

    Args:
        url: its address; ``file:`` addresses too.
        dst: where to.
        hash_prefix: how the SHA-256 of its contents must begin.
        progress: whether a bar is shown.

    Raises:
        RuntimeError: its contents are others.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source = pathlib.Path(folder, "a.txt")
    ...     _ = source.write_text("words")
    ...     download_url_to_file(source.as_uri(), f"{folder}/b.txt", progress=False)
    ...     pathlib.Path(folder, "b.txt").read_text()
    'words'
    """
    from urllib.request import Request, urlopen

    dst = os.path.expanduser(dst)
    digest = hashlib.sha256()
    request = Request(url, headers={"User-Agent": "rushlight.hub"})
    with (
        urlopen(request) as source,
        tempfile.NamedTemporaryFile(
            dir=os.path.dirname(os.path.abspath(dst)), suffix=".partial", delete=False
        ) as file,
    ):
        try:
            size = source.headers.get("Content-Length")
            total = int(size) if size else None
            with tqdm(
                total=total,
                disable=None if progress else True,  # None: shown on a terminal only
                unit="B",
                unit_scale=True,
            ) as bar:
                while chunk := source.read(READ_DATA_CHUNK):
                    file.write(chunk)
                    digest.update(chunk)
                    bar.update(len(chunk))
            file.close()
            found = digest.hexdigest()
            if hash_prefix is not None and found[: len(hash_prefix)] != hash_prefix:
                raise RuntimeError(
                    f'invalid hash value (expected "{hash_prefix}", got "{found}")'
                )
            shutil.move(file.name, dst)
        finally:
            file.close()
            if os.path.exists(file.name):
                os.remove(file.name)


def load_state_dict_from_url(
    url,
    model_dir=None,
    map_location=None,
    progress=True,
    check_hash=False,
    file_name=None,
    weights_only=True,
):
    """The tensors of a file by its address, kept in a folder once fetched.

    Args:
        url: the file's address.
        model_dir: the folder; by default ``checkpoints`` in ``get_dir()``.
        check_hash: whether the file's name holds the beginning of its SHA-256.
        file_name: the name in the folder; by default the address's last part.
        weights_only: as for ``load``; False lets the file run any program.
        map_location: as for ``load``.
        progress: whether a bar is shown.

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     source = pathlib.Path(folder, "a.pt")
    ...     torch.save({"w": torch.ones(1)}, source)
    ...     load_state_dict_from_url(source.as_uri(), f"{folder}/kept", progress=False)
    {'w': tensor([1.])}
    """
    from rushlight.serialization import load as read

    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stderr.write(f'Downloading: "{url}" to {path}\n')
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found[1] if found else None, progress)
    if _is_old_archive(path):
        with zipfile.ZipFile(path) as archive:
            members: _list[str] = archive.namelist()
            if len(members) != 1:
                raise RuntimeError("Only one file(not dir) is allowed in the zipfile")
            archive.extract(members[0], folder)
            path = os.path.join(folder, members[0])
    return read(path, map_location=map_location, weights_only=weights_only)


def _is_old_archive(path):
    """Whether a file is a plain archive around a checkpoint."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return not any(name.endswith("data.pkl") for name in archive.namelist())
