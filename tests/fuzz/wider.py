"""Further changes of a call: how values are given, and how tensors lie together."""

from __future__ import annotations

import functools
import inspect

import numpy as np
import torch

from tests.fuzz.specs import COMPLEX, INEXACT, Buffer, TensorSpec, from_values

PLAIN = (bool, int, float)


def positions_of(args, kwargs, kinds):
    """Where arguments of some Python types stand."""
    places = [i for i, item in enumerate(args) if type(item) in kinds]
    return places + [key for key, item in kwargs.items() if type(item) in kinds]


def put(args, kwargs, at, value):
    if isinstance(at, int):
        return (*args[:at], value, *args[at + 1 :]), kwargs
    return args, {**kwargs, at: value}


def disguised(rng, value):
    """A number as NumPy or a tensor has it."""
    array = np.array(value)
    ways = [lambda: array[()], lambda: array, lambda: array.reshape(1)]
    ways += [lambda: array.astype(np.int32)[()], lambda: array.astype(np.float32)[()]]
    dtype = {bool: "bool", int: "int64", float: "float64"}[type(value)]
    ways += [lambda: TensorSpec.dense(array.reshape(1), dtype, ())] * 2
    ways += [lambda: TensorSpec.dense(array.reshape(1), dtype, (1,))]
    ways += [lambda: TensorSpec.dense(array.reshape(1), "float32", (), True)]
    return rng.choice(ways)()


def disguise(rng, args, kwargs, notes):
    """One number becomes NumPy's or a tensor's."""
    places = positions_of(args, kwargs, PLAIN)
    fitting = [at for at in places if abs(value_at(args, kwargs, at)) < 2**31]
    if not fitting:
        return disguise_in_list(rng, args, kwargs, notes)
    at = rng.choice(fitting)
    value = disguised(rng, value_at(args, kwargs, at))
    notes.append(f"{at} as {type(value).__name__}")
    return put(args, kwargs, at, value)


def disguise_in_list(rng, args, kwargs, notes):
    """One number of a list does."""
    places = [
        at
        for at in positions_of(args, kwargs, (list, tuple))
        if (items := value_at(args, kwargs, at))
        and all(type(item) in PLAIN and abs(item) < 2**31 for item in items)
    ]
    if not places:
        return args, kwargs
    at = rng.choice(places)
    items = list(value_at(args, kwargs, at))
    one = rng.randrange(len(items))
    items[one] = disguised(rng, items[one])
    notes.append(f"{at}[{one}] as {type(items[one]).__name__}")
    return put(args, kwargs, at, type(value_at(args, kwargs, at))(items))


def value_at(args, kwargs, at):
    return args[at] if isinstance(at, int) else kwargs[at]


def each_recast(rng, args, kwargs, notes):
    """Every tensor in a type of its own."""
    from tests.fuzz.draw import random_dtype, swap, tensors_in

    for spec in dict.fromkeys(tensors_in([args, kwargs])):
        dtype = random_dtype(rng)
        grad = spec.grad and dtype in INEXACT
        new = TensorSpec.dense(spec.values(), dtype, spec.sizes, grad)
        args, kwargs = swap(args, spec, new), swap(kwargs, spec, new)
    notes.append("each in a type")
    return args, kwargs


def some_without_dimensions(rng, args, kwargs, notes):
    """Tensors become their first elements."""
    from tests.fuzz.draw import swap, tensors_in

    for spec in dict.fromkeys(tensors_in([args, kwargs])):
        if not spec.numel or rng.random() < 0.5:
            continue
        new = TensorSpec.dense(spec.values()[:1], spec.dtype, (), spec.grad)
        args, kwargs = swap(args, spec, new), swap(kwargs, spec, new)
    notes.append("numbers for tensors")
    return args, kwargs


def channels_last(rng, args, kwargs, notes):
    """Tensors of three to five dimensions with their channels innermost."""
    from tests.fuzz.draw import swap, tensors_in

    for spec in dict.fromkeys(tensors_in([args, kwargs])):
        if len(spec.sizes) not in (3, 4, 5) or rng.random() < 0.3:
            continue
        order = [0, *range(2, len(spec.sizes)), 1]
        values = from_values(spec.values(), spec.dtype).reshape(spec.sizes)
        raw = values.transpose(order).reshape(-1).copy()
        strides, step = [0] * len(order), 1
        for d in reversed(order):
            strides[d] = step
            step *= max(1, spec.sizes[d])
        new = TensorSpec(Buffer(raw), spec.dtype, spec.sizes, strides, 0, spec.grad)
        args, kwargs = swap(args, spec, new), swap(kwargs, spec, new)
    notes.append("channels last")
    return args, kwargs


def conjugated(rng, args, kwargs, notes):
    """A complex tensor that is conjugated only when it is read."""
    from tests.fuzz.draw import swap, tensors_in

    for spec in dict.fromkeys(tensors_in([args, kwargs])):
        if spec.dtype not in COMPLEX or rng.random() < 0.3:
            continue
        new = TensorSpec(
            spec.buffer, spec.dtype, spec.sizes, spec.strides, spec.offset, spec.grad
        )
        new.conjugate = True
        args, kwargs = swap(args, spec, new), swap(kwargs, spec, new)
    notes.append("conjugated")
    return args, kwargs


@functools.cache
def names_of(operator):
    """The names of a function's arguments, or ()."""
    target = torch
    for part in operator.split("."):
        target = getattr(target, part, None)
    try:
        return tuple(inspect.signature(target).parameters)
    except (TypeError, ValueError):
        pass
    flat = operator.replace(".", "_")
    for name in (flat, operator.rpartition(".")[2]):
        schemas = torch._C._jit_get_schemas_for_operator(f"aten::{name}")
        if schemas:
            return tuple(a.name for a in schemas[0].arguments if not a.kwarg_only)
    return ()


def named_arguments(operator):
    """A change that gives the last positional arguments by their names."""

    def name(rng, args, kwargs, notes):
        names = names_of(operator)
        if len(args) < 2 or len(names) < len(args):
            return args, kwargs
        first = rng.randint(1, len(args) - 1)
        given = list(zip(names[first:], args[first:], strict=False))
        rng.shuffle(given)
        notes.append(f"by name from {first}")
        return args[:first], {**dict(given), **kwargs}

    return name


def shared_out(rng, args, kwargs, notes):
    """``out=`` in the memory of an operand, wholly or with a shift."""
    from tests.fuzz.draw import tensors_in

    found = [spec for spec in tensors_in([args]) if spec.numel]
    if not found:
        return args, kwargs
    like = rng.choice(found)
    sizes = list(like.sizes)
    offset = like.offset
    if sizes and rng.random() < 0.5:
        d = rng.randrange(len(sizes))
        offset += like.strides[d] * (sizes[d] - (cut := rng.randint(1, sizes[d])))
        sizes[d] = cut
    out = TensorSpec(like.buffer, like.dtype, sizes, like.strides, offset)
    notes.append("out in an operand")
    return args, {**kwargs, "out": out}


def changes(operator):
    """The further changes, and how often each is made."""
    return (
        (disguise, 5),
        (each_recast, 3),
        (some_without_dimensions, 2),
        (channels_last, 3),
        (conjugated, 2),
        (named_arguments(operator), 3),
        (shared_out, 2),
    )
