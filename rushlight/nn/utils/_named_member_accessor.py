"""Members of a module's submodules, by their paths: looked up, replaced, swapped."""

import rushlight

MISSING = object()  # where a module has had nothing


def swap_tensor(module, name, tensor, allow_missing=False):
    """Puts a tensor in a member's place and gives back what was there.

    Args:
        module: whose own member it is.
        name: a parameter's, a buffer's or an attribute's.
        tensor: what takes its place; None removes the member, where it was missing.
        allow_missing: whether the member may be absent.

    Raises:
        TypeError: what is there, or comes there, is neither a tensor nor None.
        KeyError: the name has a dot.
        AttributeError: there is no such member.

    >>> layer = rl.nn.Linear(2, 1)
    >>> old = swap_tensor(layer, "bias", rl.ones(1))
    >>> layer.bias, isinstance(old, rl.nn.Parameter)
    (tensor([1.]), True)
    """
    if not isinstance(module, rushlight.nn.Module):
        raise TypeError(f"{module} is not an instance of torch.nn.Module")
    if tensor is not MISSING and not isinstance(tensor, rushlight.Tensor | None):
        raise TypeError(f"{tensor} is not an instance of torch.Tensor")
    if "." in name:
        raise KeyError('tensor name can\'t contain "."')
    if name == "":
        raise KeyError('tensor name can\'t be empty string ""')
    for table in (module._parameters, module._buffers):
        if name in table:
            old = table[name]
            if tensor is MISSING:
                del table[name]
            else:
                table[name] = tensor
            return old
    old = getattr(module, name, MISSING)
    if old is MISSING and not allow_missing:
        raise AttributeError(f"{module._get_name()} has no attribute `{name}`")
    if old is not MISSING and not isinstance(old, rushlight.Tensor):
        raise TypeError(f"attribute `{name}`: {old} is not an instance of torch.Tensor")
    if tensor is not MISSING:
        setattr(module, name, tensor)
    elif old is not MISSING:
        delattr(module, name)
    return old


class NamedMemberAccessor:
    """Looks up submodules once for many accesses to their members.

    Args:
        module: the root, whose path is the empty string.

    >>> model = rl.nn.Sequential(rl.nn.Linear(2, 1))
    >>> NamedMemberAccessor(model).get_tensor("0.bias") is model[0].bias
    True
    """

    def __init__(self, module):
        self.module = module
        self.memo = {"": module}

    def get_submodule(self, name):
        """The submodule of that path.

        Raises:
            AttributeError: there is none.
            TypeError: something else has that path.
        """
        found = self.memo.get(name)
        if found is None:
            prefix, _, own = name.rpartition(".")
            parent = self.get_submodule(prefix)
            found = getattr(parent, own, None)
            if found is None:
                raise AttributeError(f"{parent._get_name()} has no attribute `{own}`")
            if not isinstance(found, rushlight.nn.Module):
                raise TypeError(
                    f"submodule `{name}`: {found} is not an instance of torch.nn.Module"
                )
            self.memo[name] = found
        return found

    def _place(self, name):
        prefix, _, own = name.rpartition(".")
        return self.get_submodule(prefix), own

    def swap_submodule(self, path, value):
        """Puts a module in a submodule's place and gives back what was there."""
        parent, own = self._place(path)
        old = getattr(parent, own)
        setattr(parent, own, value)
        self.memo.clear()
        self.memo[""] = self.module
        return old

    def get_tensor(self, name):
        """The tensor of that path.

        Raises:
            AttributeError: there is none.
            TypeError: something else has that path.
        """
        parent, own = self._place(name)
        found = getattr(parent, own)
        if not isinstance(found, rushlight.Tensor | None):
            raise TypeError(f"{found} is not an instance of torch.Tensor")
        return found

    def set_tensor(self, name, value):
        """Puts a tensor at a path, whatever was there."""
        parent, own = self._place(name)
        if own in parent._parameters:
            parent._parameters[own] = value
        elif own in parent._buffers:
            parent._buffers[own] = value
        else:
            setattr(parent, own, value)

    def del_tensor(self, name):
        """Removes the tensor of that path."""
        delattr(*self._place(name))

    def swap_tensor(self, name, value, allow_missing=False):
        """As `swap_tensor`, by the whole path."""
        parent, own = self._place(name)
        return swap_tensor(parent, own, value, allow_missing)

    def get_tensors(self, names):
        """The tensors of several paths."""
        return [self.get_tensor(name) for name in names]

    def set_tensors(self, names, values):
        """Puts tensors at several paths."""
        for name, value in zip(names, values, strict=True):
            self.set_tensor(name, value)

    def set_tensors_dict(self, named_tensors):
        """Puts tensors at the paths that a dictionary names."""
        for name, value in named_tensors.items():
            self.set_tensor(name, value)

    def del_tensors(self, names):
        """Removes the tensors of several paths."""
        for name in names:
            self.del_tensor(name)

    def swap_tensors(self, names, values, allow_missing=False):
        """As `swap_tensor`, for several paths."""
        return [
            self.swap_tensor(name, value, allow_missing)
            for name, value in zip(names, values, strict=True)
        ]

    def swap_tensors_dict(self, named_tensors, allow_missing=False):
        """What was where a dictionary of tensors goes, and the paths where nothing was."""
        old, missing = {}, []
        try:
            for name, value in named_tensors.items():
                before = self.swap_tensor(name, value, allow_missing=True)
                if before is MISSING:
                    missing.append(name)
                old[name] = before
            if missing and not allow_missing:
                raise RuntimeError(f"Missing key(s): {', '.join(map(repr, missing))}.")
        except Exception:
            for name, before in old.items():
                self.swap_tensor(name, before, allow_missing=True)
            raise
        return old, missing

    def check_keys(self, keys):
        """Which paths of all parameters and buffers are missing, and which unknown."""
        keys = set(keys)
        valid = {name for name, _ in self.named_tensors(remove_duplicate=False)}
        return sorted(valid - keys), sorted(keys - valid)

    def named_parameters(self, remove_duplicate=True):
        """All parameters with their paths."""
        return self.module.named_parameters(remove_duplicate=remove_duplicate)

    def named_buffers(self, remove_duplicate=True):
        """All buffers with their paths."""
        return self.module.named_buffers(remove_duplicate=remove_duplicate)

    def named_tensors(self, remove_duplicate=True):
        """All parameters, then all buffers, with their paths."""
        yield from self.named_parameters(remove_duplicate)
        yield from self.named_buffers(remove_duplicate)

    def named_modules(self, remove_duplicate=True):
        """All submodules with their paths."""
        return self.module.named_modules(remove_duplicate=remove_duplicate)
