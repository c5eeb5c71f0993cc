"""Archives to what answers requests: the model in memory, and its handler."""

import rushlight as torch
from rushlight.serve.archive import Archive
from rushlight.serve.handlers import HANDLERS


def open_model(path, allow_code=False):
    """The handler of an archive, its model loaded.

    Args:
        path: the archive, or the file of a model.
        allow_code: whether code of the archive may run.

    Returns:
        A :class:`Handler`; ``handle(requests)`` answers a batch.

    Raises:
        ArchiveError: the archive is damaged, or has code that is not allowed.
    """
    archive = Archive(path, allow_code)
    archive.verify()
    entry = archive.manifest["handler"]
    if ":" in entry:
        kind = archive.load_code(entry)
    elif entry in HANDLERS:
        kind = HANDLERS[entry]
    else:
        raise archive.fault(
            f"handler {entry!r} is none of {', '.join(HANDLERS)}, nor file.py:Class"
        )
    return kind(archive, load(archive))


def load(archive):
    """The model of an archive, as something that is called with tensors."""
    kind, name = archive.manifest["kind"], archive.manifest["model"]
    return _LOADERS[kind](archive, name)


def _exported(archive, name):
    return torch.export.load(archive.open(name)).module()


def _scripted(archive, name):
    return torch.jit.load(archive.open(name)).eval()


def _onnx(archive, name):
    return torch.onnx.load(archive.open(name))


def _eager(archive, name):
    """The model that the archive's factory makes, with the weights of its file."""
    if not archive.manifest.get("factory"):
        raise archive.fault("an eager model needs a factory: file.py:function")
    model = archive.load_code(archive.manifest["factory"])()
    if not isinstance(model, torch.nn.Module):
        return model
    weights = torch.load(archive.open(name), weights_only=True)
    model.load_state_dict(weights)
    return model.eval()


_LOADERS = {
    "exported": _exported,
    "scripted": _scripted,
    "onnx": _onnx,
    "eager": _eager,
}
