"""The models that are served: names, versions, and which version a name alone means."""

import asyncio
from dataclasses import dataclass, fields, replace
from pathlib import Path

from rushlight.serve._answers import Refused, bad, not_found
from rushlight.serve._metrics import Metrics
from rushlight.serve._pool import Model, WorkerFailed
from rushlight.serve.archive import _BARE, SUFFIX, Archive, ArchiveError


@dataclass(frozen=True)
class Settings:
    """How a model is served: times are seconds.

    ``max_batch_delay`` bounds how long a request waits for others to join its batch,
    ``response_timeout`` how long a batch may take, ``request_timeout`` how long a request
    may take altogether, ``queue_size`` how many requests wait at most.
    """

    batch_size: int = 8
    max_batch_delay: float = 0.002
    response_timeout: float = 120.0
    request_timeout: float = 300.0
    startup_timeout: float = 120.0
    queue_size: int = 1000
    min_workers: int = 1
    threads: int = 0


_MOST = {
    "batch_size": 4096,
    "min_workers": 256,
    "queue_size": 1_000_000,
    "threads": 1024,
}


def settings_from(base, given):
    """Settings with what is given in their place; ``max_batch_delay`` in milliseconds.

    Raises:
        Refused: a number that is none, or out of its bounds.
    """
    changed = {}
    for field in fields(Settings):
        value = given.get(field.name)
        if value is None:
            continue
        try:
            number = type(field.default)(value)
        except (TypeError, ValueError):
            raise bad(f"{field.name}: {value!r} is no number") from None
        least = (
            0 if field.name in ("max_batch_delay", "min_workers", "threads") else 1e-3
        )
        if not least <= number <= _MOST.get(field.name, 86_400_000):
            raise bad(f"{field.name}: {value} is out of its bounds")
        changed[field.name] = (
            number / 1000 if field.name == "max_batch_delay" else number
        )
    return replace(base, **changed)


class Registry:
    """Models by name and version, read from the folder of the store alone."""

    def __init__(self, store, settings, allow_code=False):
        self.store, self.settings = Path(store).resolve(), settings
        self.allow_code = allow_code
        self.models, self.defaults = {}, {}
        self.metrics = Metrics(self.all)

    def all(self):
        """Every version of every model."""
        return [m for versions in self.models.values() for m in versions.values()]

    def found(self, name, version=None):
        """A version of a model, by default the one that the name alone means.

        Raises:
            Refused: there is none.
        """
        versions = self.models.get(name)
        if not versions:
            raise not_found(name)
        model = versions.get(version or self.defaults[name])
        if model is None:
            raise not_found(name, version)
        return model

    def path_of(self, url):
        """The file of the store that an address names.

        Raises:
            Refused: it lies elsewhere, or is none.
        """
        if not url or "://" in url:
            raise bad(f"url {url!r}: the name of a file in the model store is expected")
        path = (self.store / url).resolve()
        if not path.is_relative_to(self.store):
            raise bad(f"Relative path is not allowed in url: {url}")
        if not path.is_file():
            raise Refused(404, "ModelNotFoundException", f"Model not found at: {url}")
        return path

    async def register(self, url, given=None, wait=True):
        """Reads an archive and starts its workers.

        Raises:
            Refused: the archive is wrong, its version is there, or its workers do not start.
        """
        path, given = self.path_of(url), given or {}
        try:
            archive = await asyncio.to_thread(self.read, path)
        except ArchiveError as error:
            raise Refused(400, "InvalidModelException", str(error)) from None
        name, version = archive.manifest["name"], archive.manifest["version"]
        if version in self.models.get(name, {}):
            words = f"Model version {version} is already registered for model {name}"
            raise Refused(409, "ConflictStatusException", words)
        settings = settings_from(settings_from(self.settings, archive.options), given)
        model = Model(archive, settings, self.metrics)
        self.models.setdefault(name, {})[version] = model
        self.defaults.setdefault(name, version)
        await model.scale(settings.min_workers)
        if wait:
            try:
                await model.until_ready(settings.startup_timeout)
            except WorkerFailed as error:
                await self.unregister(name, version)
                raise Refused(500, "WorkerFailedException", str(error)) from None
        return model

    def read(self, path):
        """The archive, every checksum of it tried."""
        archive = Archive(path, self.allow_code)
        archive.verify()
        return archive

    def files(self):
        """The names of what can be served in the store."""
        endings = {SUFFIX, *_BARE}
        return sorted(p.name for p in self.store.iterdir() if p.suffix in endings)

    async def unregister(self, name, version=None):
        """Ends a version, by default the one that the name means; waiting jobs fail."""
        model = self.found(name, version)
        versions = self.models[name]
        if self.defaults[name] == model.version and len(versions) > 1:
            if version is not None:
                words = f"Cannot remove default version for model {name}"
                raise Refused(403, "ForbiddenException", words)
        del versions[model.version]
        if not versions:
            del self.models[name], self.defaults[name]
        elif self.defaults[name] == model.version:
            self.defaults[name] = max(versions)
        await model.scale(0)
        words = f"Model {name} was unregistered"
        model.fail(list(model.queue.jobs), 503, "ServiceUnavailableException", words)
        return model

    def make_default(self, name, version):
        """Lets a name mean a version."""
        self.defaults[name] = self.found(name, version).version

    async def close(self):
        """Ends every worker."""
        await asyncio.gather(*(model.scale(0) for model in self.all()))
