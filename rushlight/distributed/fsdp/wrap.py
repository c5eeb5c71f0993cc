"""Policies: which modules of a tree are wrapped, and a block that wraps as it is made."""

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from rushlight import nn
from rushlight.core.state import AttributeScope

__all__ = [
    "CustomPolicy",
    "ModuleWrapPolicy",
    "always_wrap_policy",
    "chosen_modules",
    "enable_wrap",
    "lambda_auto_wrap_policy",
    "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy",
    "wrap",
]

_block = SimpleNamespace(wrapper=None, options=None)


def always_wrap_policy(*args, **kwargs) -> bool:
    """Every module is wrapped.

    >>> always_wrap_policy(nn.Linear(1, 1), False, 2)
    True
    """
    return True


def lambda_auto_wrap_policy(
    module: nn.Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable
) -> bool:
    """Modules for which a function is true are wrapped.

    Args:
        module: the one that is asked about.
        recurse: whether its children are to be asked about, which is so, or itself.
        nonwrapped_numel: elements of its parameters that are not wrapped yet.
        lambda_fn: the function of a module.
    """
    return recurse or lambda_fn(module)


def transformer_auto_wrap_policy(
    module: nn.Module,
    recurse: bool,
    nonwrapped_numel: int,
    transformer_layer_cls: set[type[nn.Module]],
) -> bool:
    """Modules of some classes are wrapped.

    Args:
        module: the one that is asked about.
        recurse: whether its children are to be asked about, which is so, or itself.
        nonwrapped_numel: elements of its parameters that are not wrapped yet.
        transformer_layer_cls: the classes.
    """
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def size_based_auto_wrap_policy(
    module: nn.Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = 10**8,
    force_leaf_modules: set[type[nn.Module]] | None = None,
    exclude_wrap_modules: set[type[nn.Module]] | None = None,
) -> bool:
    """Modules with many elements that no child has taken are wrapped.

    Args:
        module: the one that is asked about.
        recurse: whether its children are to be asked about, or itself.
        nonwrapped_numel: elements of its parameters that are not wrapped yet.
        min_num_params: the least number of elements.
        force_leaf_modules: classes whose children are not asked about.
        exclude_wrap_modules: classes that are not wrapped themselves.

    >>> size_based_auto_wrap_policy(nn.Linear(1, 1), False, 2, min_num_params=2)
    True
    """
    policy: Any = size_based_auto_wrap_policy
    if force_leaf_modules is None:
        force_leaf_modules = policy.FORCE_LEAF_MODULES
    if exclude_wrap_modules is None:
        exclude_wrap_modules = policy.EXCLUDE_WRAP_MODULES
    passed_by = force_leaf_modules if recurse else exclude_wrap_modules
    large = nonwrapped_numel >= min_num_params
    return large and not isinstance(module, tuple(passed_by))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {nn.ModuleList, nn.ModuleDict}  # type: ignore[attr-defined]
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {nn.MultiheadAttention}  # type: ignore[attr-defined]


class ModuleWrapPolicy:
    """Modules of some classes are wrapped, all in the same way.

    >>> policy = ModuleWrapPolicy([nn.Linear])
    >>> policy(nn.Linear(1, 1), recurse=False)
    True
    """

    def __init__(self, module_classes: Iterable[type[nn.Module]]):
        self._module_classes = set(module_classes)

    def _run_policy(self, root_module, ignored_modules, root_kwargs):
        """The modules to wrap, with the arguments of each."""
        return {
            module: root_kwargs
            for module in root_module.modules()
            if module not in ignored_modules
            and isinstance(module, tuple(self._module_classes))
        }

    def __call__(self, module, recurse, *args, **kwargs):
        return recurse or isinstance(module, tuple(self._module_classes))

    def __repr__(self):
        return f"ModuleWrapPolicy({self._module_classes})"


class CustomPolicy:
    """A function says of each module whether it is wrapped, or with which arguments."""

    def __init__(self, lambda_fn: Callable[[nn.Module], bool | dict[str, Any]]):
        self._lambda_fn = lambda_fn

    def _run_policy(self, root_module, ignored_modules, root_kwargs):
        """The modules to wrap, with the arguments of each.

        Raises:
            ValueError: the function gives neither a truth value nor arguments.
        """
        chosen = {}
        for module in root_module.modules():
            if module in ignored_modules:
                continue
            answer = self._lambda_fn(module)
            if not isinstance(answer, (dict, bool)):
                raise ValueError(
                    "The lambda_fn passed to CustomPolicy should return False/True or a "
                    f"kwarg dict, but it returned {answer}"
                )
            if answer is not False:
                given = answer if isinstance(answer, dict) else {}
                chosen[module] = {**root_kwargs, **given}
        return chosen


def enable_wrap(*, wrapper_cls, **wrapper_kwargs):
    """A block in which `wrap` wraps modules.

    Args:
        wrapper_cls: what is called with each module.
        wrapper_kwargs: its further arguments.
    """
    return AttributeScope(_block, wrapper=wrapper_cls, options=wrapper_kwargs)


def wrap(module: nn.Module, **wrap_overrides) -> nn.Module:
    """A module, wrapped where a block of `enable_wrap` asks for it.

    Args:
        module: the module.
        wrap_overrides: arguments in place of the block's.

    >>> with enable_wrap(wrapper_cls=nn.Sequential):
    ...     print(wrap(nn.Identity()))
    Sequential(
      (0): Identity()
    )
    >>> wrap(nn.Identity())
    Identity()
    """
    if _block.wrapper is None:
        return module
    return _block.wrapper(module, **{**_block.options, **wrap_overrides})


def chosen_modules(root, policy, options):
    """The submodules that a policy wraps, inner ones first.

    Args:
        root: the module; it is not among them.
        policy: a policy of this file, or a function of module, ``recurse`` and elements.
        options: the arguments with which each is wrapped.

    Returns:
        A list of parent, name in it, module, arguments.
    """
    if hasattr(policy, "_run_policy"):
        chosen = policy._run_policy(root, set(), options)
    else:
        chosen = {}
        _ask(root, policy, options, chosen)
    found = []

    def visit(module):
        for name, child in module.named_children():
            visit(child)
            if child in chosen:
                found.append((module, name, child, chosen[child]))

    visit(root)
    return found


def _ask(module, policy, options, chosen):
    """Ask a function about a module and those in it; elements that are wrapped then."""
    total = sum(each.numel() for each in module.parameters())
    if not policy(module=module, recurse=True, nonwrapped_numel=total):
        return 0
    taken = sum(_ask(each, policy, options, chosen) for each in module.children())
    left = total - taken
    if policy(module=module, recurse=False, nonwrapped_numel=left):
        chosen[module] = options
        return total
    return taken
