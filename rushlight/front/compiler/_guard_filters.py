"""Which guards of a captured program are kept: functions for ``guard_filter_fn``.

Programs have no such guards here, since each call is followed: the functions are for those
that set the option, and for guards of others.
"""

from rushlight.nn.parameter import Parameter


def keep_portable_guards_unsafe(guard_entries):
    """Keeps what is said of tensors that are no globals, of sizes and of modes.

    Args:
        guard_entries: the guards, each with ``guard_type``, ``is_global``, ``value`` and
            ``orig_guard``.

    >>> from types import SimpleNamespace as Entry
    >>> guard = Entry(guard_type="TENSOR_MATCH", is_global=False)
    >>> keep_portable_guards_unsafe([guard, Entry(guard_type="ID_MATCH")])
    [True, False]
    """
    kinds = ("GLOBAL_STATE", "SHAPE_ENV")
    return [
        one.guard_type in kinds
        or (one.guard_type == "TENSOR_MATCH" and not one.is_global)
        for one in guard_entries
    ]


def keep_tensor_guards_unsafe(guard_entries, keep_parameters=False):
    """Keeps what is said of tensors.

    Args:
        guard_entries: the guards.
        keep_parameters: whether parameters are among them.

    >>> from types import SimpleNamespace as Entry
    >>> keep_tensor_guards_unsafe([Entry(guard_type="TENSOR_MATCH", value=None)])
    [True]
    """
    return [
        one.guard_type == "TENSOR_MATCH"
        and (keep_parameters or not isinstance(one.value, Parameter))
        for one in guard_entries
    ]


def skip_all_guards_unsafe(guard_entries):
    """Keeps none.

    Args:
        guard_entries: the guards.

    >>> skip_all_guards_unsafe([None, None])
    [False, False]
    """
    return [False for _ in guard_entries]


def skip_guard_on_globals_unsafe(guard_entries):
    """Keeps what is not said of globals.

    Args:
        guard_entries: the guards.

    >>> from types import SimpleNamespace as Entry
    >>> skip_guard_on_globals_unsafe([Entry(is_global=True), Entry(is_global=False)])
    [False, True]
    """
    return [not one.is_global for one in guard_entries]


def skip_guard_on_all_nn_modules_unsafe(guard_entries):
    """Keeps what is not said of modules.

    Args:
        guard_entries: the guards, whose sources say whether they are such.

    >>> skip_guard_on_all_nn_modules_unsafe([])
    []
    """
    sources = [one.orig_guard.source for one in guard_entries]
    return [not source.is_unspecialized_nn_module() for source in sources]


def skip_guard_on_inbuilt_nn_modules_unsafe(guard_entries):
    """Keeps what is not said of modules that come with the package.

    Args:
        guard_entries: the guards, whose sources say whether they are such.

    >>> skip_guard_on_inbuilt_nn_modules_unsafe([])
    []
    """
    sources = [one.orig_guard.source for one in guard_entries]
    return [not source.is_unspecialized_builtin_nn_module() for source in sources]
