"""Calling a module with other tensors in place of its own."""

import contextlib

from rushlight.core.warning import warn
from rushlight.nn.utils._named_member_accessor import MISSING, NamedMemberAccessor

__all__ = ["functional_call"]


def _names_of_tensors(module):
    """The names of each parameter and buffer, by the tensor's identity."""
    names: dict = {}
    for named in (module.named_parameters, module.named_buffers):
        for path, tensor in named(remove_duplicate=False):
            names.setdefault(id(tensor), []).append(path)
    return names


def _with_tied_names(module, values):
    """The values, given to every name that shares a tensor with one of them.

    Raises:
        ValueError: names of one tensor have several values.
    """
    tied = dict(values)
    for paths in _names_of_tensors(module).values():
        given = [path for path in paths if path in values]
        if len({id(values[path]) for path in given}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(paths)}, which are "
                "tied. Consider using tie_weights=False"
            )
        for path in paths if given else ():
            tied[path] = values[given[0]]
    return tied


def _check_names(module, values):
    """Refuses values that are not for exactly the module's own names."""
    known = {path for paths in _names_of_tensors(module).values() for path in paths}
    faults = []
    for word, names in (
        ("Unexpected", values.keys() - known),
        ("Missing", known - values.keys()),
    ):
        if names:
            faults.append(f"{word} key(s): {', '.join(map(repr, sorted(names)))}.")
    if faults:
        raise RuntimeError(
            f"Error(s) in reparametrizing for {module._get_name()}:\n\t"
            + "\n\t".join(faults)
        )


@contextlib.contextmanager
def _reparametrize_module(
    module, parameters_and_buffers, tie_weights=False, strict=False
):
    """A module with other tensors; what it puts in their place goes into the dictionary.

    Args:
        module: the module, which is left as it was.
        parameters_and_buffers: tensors by path.
        tie_weights: whether a tensor known by several names is replaced in all.
        strict: whether the paths must be exactly the module's own.
    """
    values = parameters_and_buffers
    if tie_weights:
        values = _with_tied_names(module, values)
    if strict:
        _check_names(module, values)
    saved: dict = {}
    swap = NamedMemberAccessor(module).swap_tensor
    try:
        for path, tensor in values.items():
            saved[path] = swap(path, tensor, allow_missing=True)
        yield
    finally:
        left = {
            path: swap(path, own, allow_missing=True)
            for path, own in reversed(saved.items())
        }
        for path in parameters_and_buffers.keys() & left.keys():
            if left[path] is not parameters_and_buffers[path] and (
                left[path] is not MISSING
            ):
                parameters_and_buffers[path] = left[path]


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
        parameters_and_buffers: tensors by path; the others stay. What the module puts
            in their place is put into the dictionary.
        args: one argument, or a tuple of them.
        kwargs: keyword arguments.
        tie_weights: whether a tensor known by several names is replaced in all.
        strict: whether the paths must be exactly the module's own.

    Raises:
        RuntimeError: with ``strict``, paths are missing or not the module's; or the
            module is a translated program, or one for several devices.
        TypeError: a value is no tensor, or stands for what is none.
        ValueError: names of one tensor have several values.
    """
    warn(
        "`torch.nn.utils.stateless.functional_call` is deprecated as of PyTorch 2.0 and "
        "will be removed in a future version. Please use `torch.func.functional_call` "
        "instead which is a drop-in replacement.",
        FutureWarning,
    )
    return _functional_call(
        module,
        parameters_and_buffers,
        args,
        kwargs,
        tie_weights=tie_weights,
        strict=strict,
    )


def _functional_call(
    module,
    parameters_and_buffers,
    args=None,
    kwargs=None,
    *,
    tie_weights=True,
    strict=False,
):
    kind = getattr(module, "_keeps_its_tensors", None)
    if kind is not None:
        raise RuntimeError(f"The stateless API can't be used with {kind}")
    if args is None:
        args = ()
    elif not isinstance(args, tuple):
        args = (args,)
    with _reparametrize_module(module, parameters_and_buffers, tie_weights, strict):
        return module(*args, **(kwargs or {}))
