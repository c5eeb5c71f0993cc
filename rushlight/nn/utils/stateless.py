"""Calling a module with other tensors in place of its own."""

from __future__ import annotations

import contextlib

from rushlight.core.warning import warn

__all__ = ["functional_call"]


def _slot(module, path):
    """The dictionary and the key that hold the tensor at a path."""
    *route, name = path.split(".")
    owner = module.get_submodule(".".join(route))
    for table in (owner._parameters, owner._buffers):
        if name in table:
            return table, name
    raise AttributeError(f"{type(owner).__name__} has no attribute `{name}`")


def _with_tied_names(module, values):
    """The values, given to every name that shares a tensor with one of them."""
    names = {}
    for named in (module.named_parameters, module.named_buffers):
        for path, tensor in named(remove_duplicate=False):
            names.setdefault(id(tensor), []).append(path)
    tied = dict(values)
    for paths in names.values():
        given = [path for path in paths if path in values]
        for path in paths if given else ():
            tied.setdefault(path, values[given[0]])
    return tied


@contextlib.contextmanager
def _replaced(module, values):
    saved = []
    try:
        for path, value in values.items():
            table, name = _slot(module, path)
            saved.append((table, name, table[name]))
            table[name] = value
        yield
    finally:
        for table, name, value in reversed(saved):
            table[name] = value


def functional_call(
    module,
    parameters_and_buffers,
    args=None,
    kwargs=None,
    *,
    tie_weights=True,
    strict=False,
):
    """Call a module with given tensors as its parameters and buffers.

    Args:
        module: the module, which is left as it was.
        parameters_and_buffers: tensors by path; the others stay.
        args: one argument, or a tuple of them.
        kwargs: keyword arguments.
        tie_weights: whether a tensor known by several names is replaced in all.
        strict: whether the paths must be exactly the module's own.

    Raises:
        RuntimeError: with ``strict``, paths are missing or not the module's.
    """
    warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and "
        "will be removed in a future version. Please use `torch.func.functional_call` "
        "instead which is a drop-in replacement.",
        FutureWarning,
    )
    return _functional_call(
        module, parameters_and_buffers, args, kwargs, tie_weights, strict
    )


def _functional_call(module, parameters_and_buffers, args, kwargs, tie_weights, strict):
    values = dict(parameters_and_buffers)
    if strict:
        known = {
            *dict(module.named_parameters(remove_duplicate=False)),
            *dict(module.named_buffers(remove_duplicate=False)),
        }
        missing, unexpected = known - set(values), set(values) - known
        if missing or unexpected:
            raise RuntimeError(
                "Error(s) in loading state_dict: Unexpected key(s): "
                f"{sorted(unexpected)}. Missing key(s): {sorted(missing)}."
            )
    if tie_weights:
        values = _with_tied_names(module, values)
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _replaced(module, values):
        return module(*args, **(kwargs or {}))
