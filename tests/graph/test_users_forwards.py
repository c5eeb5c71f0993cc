"""A user's own ``forward`` is left out where it only asks for operators, and runs where not."""

import copy
import dataclasses
import functools
import itertools
import math
import random
import sys
import types

import pytest

import rushlight as rl
from rushlight import nn
from rushlight._inductor import config
from rushlight.nn import functional as F

HERE = sys.modules[__name__]
SCALE = 2.0
seen: list = []
table = {"scale": 2.0}
counter = itertools.count()
weight_of_all = rl.ones(4)


other_functions = types.ModuleType("rushlight.others")
other_functions.relu = F.gelu


def shifted(x, by=1.0, *, times=1.0):
    return x * times + by


def with_defaults(self, x, gain=2.0):
    return shifted(self.first(x)) * gain


def of(forward, **members):
    """A module class with a ``forward``, two layers and more members."""

    def make():
        rl.manual_seed(0)
        module = type(
            "Own",
            (nn.Module,),
            {"forward": forward, "twice": twice, "_attend": _attend},
        )()
        module.first, module.second = nn.Linear(4, 4), nn.Linear(4, 4)
        module.blocks = nn.ModuleList([nn.Linear(4, 4), nn.ReLU()])
        for name, item in members.items():
            setattr(module, name, item)
        return module

    return make


def twice(self, x):
    return self.second(F.relu(self.first(x)))


def with_residual(self, x):
    y = self.twice(x)
    y += x
    return y * SCALE


def with_lists(self, x):
    kept = []
    for block in self.blocks:
        x = block(x)
        kept.append(x)
    a, b = (part.reshape(-1, 2) for part in x.split(2, -1))
    return rl.cat([a, b], 1), tuple(kept)


def with_sizes(self, x):
    batch, width = x.shape
    if batch > 2 and x.size(-1) == width and not self.training:
        raise ValueError(f"too many: {batch}")
    scale = 1 / math.sqrt(max(width, 1))
    return F.softmax(self.first(x).view(batch, 2, -1) * scale, dim=-1).flatten(1)


def with_helper(self, x, twin=None):
    y = shifted(self.first(x), by=3.0)
    return y if twin is None else y - twin


def with_constants(self, x):
    return self.first(x) * self.gain + self.shifts[0] + self.extra


def with_dropout(self, x):
    return F.dropout(self.first(x), 0.5, self.training)


def with_private_members(self, x):
    return self._attend(self.first(x)) * self._scale


def _attend(self, x):
    return F.softmax(x @ x.transpose(-1, -2), -1) @ x


@dataclasses.dataclass
class Settings:
    width: int = 4
    scale: float = 0.5
    limits: tuple = (1, 8)

    def doubled(self):
        return self.scale * 2


def with_settings(self, x):
    if x.shape[-1] > self.settings.limits[1]:
        raise AssertionError("too wide")
    return self.first(x) * self.settings.scale + self.settings.doubled()


def enclosing():
    scale, layer = 3.0, F.gelu

    def forward(self, x):
        return layer(self.first(x)) * scale

    return forward


class Parent(nn.Module):
    gain = 2.0

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)

    def forward(self, x):
        return self.first(x) * self.gain


class Child(Parent):
    def forward(self, x, *rest, **more):
        return super().forward(x) - 1.0


def child():
    rl.manual_seed(0)
    return nn.Sequential(Child(), nn.ReLU(), Child())


PLAIN = {
    "residual": of(with_residual),
    "lists": of(with_lists),
    "sizes": of(with_sizes),
    "helper": of(with_helper),
    "defaults": of(with_defaults),
    "constants": of(with_constants, gain=1.5, shifts=[2, 3], extra=weight_of_all),
    "dropout": of(with_dropout),
    "settings": of(with_settings, settings=Settings()),
    "private": of(with_private_members, _scale=0.5),
    "enclosed": of(enclosing()),
    "child": child,
}


def image():
    return rl.arange(8.0).reshape(2, 4).sin()


def tensors(result):
    return (
        [result]
        if isinstance(result, rl.Tensor)
        else list(rl.utils._pytree.tree_leaves(result))
    )


def same(found, wanted):
    assert type(found) is type(wanted)
    for one, other in zip(tensors(found), tensors(wanted), strict=True):
        assert one.dtype == other.dtype and one.stride() == other.stride()
        assert one.requires_grad == other.requires_grad
        assert rl.allclose(one, other, atol=1e-6), (one, other)


def in_step(module, twin, called, learns, times=4):
    """A compiled module beside an uncompiled one: results, gradients, draws and errors."""
    for _ in range(times):
        outcomes = []
        for call, owner in (called, module), (twin, twin):
            rl.manual_seed(1)
            x = image().requires_grad_(learns)
            with rl.set_grad_enabled(learns):
                result = call(x)
            if learns:
                sum(one.sum() for one in tensors(result)).backward()
            grads = [p.grad for p in owner.parameters() if p.grad is not None]
            outcomes.append((result, grads, rl.get_rng_state()))
            owner.zero_grad()
        same(outcomes[0][0], outcomes[1][0])
        for one, other in zip(outcomes[0][1], outcomes[1][1], strict=True):
            assert rl.allclose(one, other, atol=1e-6)
        assert rl.equal(outcomes[0][2], outcomes[1][2])


def times(called):
    """How often the whole of a compiled module's Python was left out."""
    module = called._orig_mod
    roots = called.__dict__["_runner"].roots.values()
    entries = [entry for root in roots for entry in (root.segments or {}).values()]
    kept = [one for entry in entries for one in entry[1:] if one.module() is module]
    return sum(one.times for one in kept)


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("name", PLAIN)
def test_a_plain_forward_is_left_out(name, learns):
    module = PLAIN[name]()
    twin = copy.deepcopy(module)
    called = rl.compile(module)
    in_step(module, twin, called, learns, 6)
    before = times(called)
    in_step(module, twin, called, learns, 1)
    assert times(called) == before + 1


def another_cell(module, patch):
    function = type(module).forward
    patch.setattr(function.__closure__[1], "cell_contents", 7.0)


CHANGES = {
    "a global": ("residual", lambda m, p: p.setattr(HERE, "SCALE", 5.0)),
    "a global function": (
        "helper",
        lambda m, p: p.setattr(HERE, "shifted", lambda x, by: x),
    ),
    "a function's code": (
        "helper",
        lambda m, p: p.setattr(
            shifted, "__code__", (lambda x, by, *, times: x - by).__code__
        ),
    ),
    "a default": ("defaults", lambda m, p: p.setattr(shifted, "__defaults__", (5.0,))),
    "a default of a name": (
        "defaults",
        lambda m, p: p.setitem(shifted.__kwdefaults__, "times", 3.0),
    ),
    "defaults of names": (
        "defaults",
        lambda m, p: p.setattr(shifted, "__kwdefaults__", {"times": 4.0}),
    ),
    "a forward's default": (
        "defaults",
        lambda m, p: p.setattr(with_defaults, "__defaults__", (7.0,)),
    ),
    "a global module": ("residual", lambda m, p: p.setattr(HERE, "F", other_functions)),
    "a module's function": ("residual", lambda m, p: p.setattr(F, "relu", F.gelu)),
    "a method": (
        "residual",
        lambda m, p: setattr(type(m), "twice", lambda self, x: self.first(x)),
    ),
    "a forward": ("residual", lambda m, p: setattr(type(m), "forward", twice)),
    "a builtin's name": (
        "sizes",
        lambda m, p: p.setattr(HERE, "max", min, raising=False),
    ),
    "a variable around it": ("enclosed", another_cell),
    "an attribute": ("constants", lambda m, p: setattr(m, "gain", 9.0)),
    "an attribute of an object": (
        "settings",
        lambda m, p: p.setattr(m.settings, "scale", 3.0),
    ),
    "an object, unheard": (
        "settings",
        lambda m, p: p.setitem(vars(m.settings), "scale", 3.0),
    ),
    "another object": (
        "settings",
        lambda m, p: setattr(m, "settings", Settings(4, 9.0)),
    ),
    "a method of an object": (
        "settings",
        lambda m, p: p.setattr(Settings, "doubled", lambda self: 7.0),
    ),
    "a private attribute": ("private", lambda m, p: setattr(m, "_scale", 9.0)),
    "a private method": (
        "private",
        lambda m, p: setattr(type(m), "_attend", lambda self, x: x + 1),
    ),
    "an entry of a list": ("constants", lambda m, p: m.shifts.__setitem__(0, 9)),
    "a tensor attribute": ("constants", lambda m, p: setattr(m, "extra", rl.zeros(4))),
    "a tensor attribute, in place": ("constants", lambda m, p: m.extra.mul_(3)),
    "an attribute of a class": ("child", lambda m, p: p.setattr(Parent, "gain", 4.0)),
    "a parent's forward": (
        "child",
        lambda m, p: p.setattr(Parent, "forward", lambda s, x: x),
    ),
    "training": ("sizes", lambda m, p: m.eval()),
    "no dropout": ("dropout", lambda m, p: m.eval()),
    "a hook": (
        "residual",
        lambda m, p: m.first.register_forward_hook(lambda m, i, o: o * 2) and None,
    ),
    "a frozen layer": ("residual", lambda m, p: m.first.requires_grad_(False) and None),
    "other parameters": (
        "residual",
        lambda m, p: (
            m.load_state_dict({k: v + 1 for k, v in m.state_dict().items()}) and None
        ),
    ),
    "another layer": (
        "residual",
        lambda m, p: setattr(m, "second", nn.Linear(4, 4, False)),
    ),
    "a longer list": ("lists", lambda m, p: m.blocks.append(nn.Tanh()) and None),
}


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen(name, learns, monkeypatch):
    kind, change = CHANGES[name]
    module = PLAIN[kind]()
    called = rl.compile(module)
    in_step(module, copy.deepcopy(module), called, learns, 6)
    assert times(called)
    rl.manual_seed(3)
    change(module, monkeypatch)
    in_step(module, copy.deepcopy(module), called, learns, 3)


def counting(self, x):
    self.count = getattr(self, "count", 0) + 1
    return self.first(x) * self.count


def remembering(self, x):
    seen.append(float(x.shape[0]))
    return self.first(x) * len(seen)


def telling(self, x):
    print("called")
    return self.first(x)


def drawing(self, x):
    return self.first(x) * random.random()


def iterating(self, x):
    return self.first(x) * next(counter)


def looking(self, x):
    if self.flag > 0:
        return self.first(x)
    return self.second(x)


def looking_first(self, x):
    return self.first(x) if self.flag.item() > 0 else self.second(x)


def looking_into_a_table(self, x):
    return self.first(x) * table["scale"]


def with_a_table(self, x):
    return self.first(x) * self.settings["scale"]


def with_an_attribute(self, x):
    return self.first(x) * self.flag.gain


def with_a_gradient(self, x):
    grad = self.first.weight.grad
    return self.first(x) if grad is None else self.second(x)


def clearing(self, x):
    self.first.zero_grad()
    return self.first(x) + (0 if self.first.weight.grad is None else 1)


class Counter:
    def __init__(self):
        self.count = 0

    def more(self):
        self.count += 1
        return self.count


class Sly:
    def __init__(self):
        self.table = {"scale": 2.0}

    @property
    def scale(self):
        return table["scale"]


def counting_elsewhere(self, x):
    return self.first(x) * self.counter.more()


class Drawn:
    __slots__ = ("number",)

    def __init__(self):
        self.number = 2.0


def by_a_slot(self, x):
    return self.first(x) * self.drawn.number


def by_a_partial(self, x):
    return self.first(x) * self.partial()


def by_a_property(self, x):
    return self.first(x) * self.sly.scale


def by_a_table_of_an_object(self, x):
    return self.first(x) * self.sly.table["scale"]


def writing(self, x):
    y = self.first(x)
    y[:, 0] = 2.0
    return y


def by_identity(self, x):
    return self.first(x) if self.flag is self.other else self.second(x)


def trying(self, x):
    try:
        return self.first(x) * table["scale"]
    except KeyError:
        return self.second(x)


def class_table(self, x):
    return self.first(x) * self.sizes["scale"]


def address(self, x):
    return self.first(x) * (1 + x.data_ptr() % 1)


def version(self, x):
    return self.first(x) + self.flag._version


def making(self, x):
    return self.first(x) * rl.tensor(float(x.shape[0]))


def seeding(self, x):
    rl.manual_seed(7)
    return self.first(x) + rl.rand(4)


def switching(self, x):
    with rl.no_grad():
        return self.first(x)


def learning(self, x):
    return self.first(x.detach().requires_grad_()) * 2


def growing(self, x):
    self.shifts.append(1)
    return self.first(x) * len(self.shifts)


def module_made(self, x):
    return nn.Linear(4, 4)(x)


def raise_flag(m):
    m.flag.neg_()


def other_scale(m):
    table["scale"] += 1


def gain(m):
    m.flag.gain += 1


def hooks_of_states(self, x):
    return self.first(x) * (1 + len(self._state_dict_hooks))


UNPLAIN = {
    "a count": (counting, None),
    "a global list": (remembering, None),
    "output": (telling, None),
    "Python's random": (drawing, lambda m: random.seed(4)),
    "an iterator": (iterating, None),
    "an element": (looking, raise_flag),
    "an item": (looking_first, raise_flag),
    "a global table": (looking_into_a_table, other_scale),
    "a table of its own": (with_a_table, lambda m: m.settings.update(scale=8.0)),
    "an attribute of a tensor": (with_an_attribute, gain),
    "a gradient": (with_a_gradient, lambda m: m.first.weight.sum().backward()),
    "gradients cleared": (clearing, lambda m: m.first.weight.sum().backward()),
    "a part written to": (writing, None),
    "one tensor or two": (by_identity, lambda m: setattr(m, "other", m.flag)),
    "a try": (trying, other_scale),
    "a table of its class": (class_table, lambda m: type(m).sizes.update(scale=8.0)),
    "an address": (address, None),
    "an object that counts": (counting_elsewhere, None),
    "a property of an object": (by_a_property, other_scale),
    "a slot of an object": (by_a_slot, lambda m: setattr(m.drawn, "number", 9.0)),
    "a partial": (by_a_partial, other_scale),
    "a table of an object": (
        by_a_table_of_an_object,
        lambda m: m.sly.table.update(scale=8.0),
    ),
    "a version": (version, raise_flag),
    "a tensor made of a number": (making, None),
    "a seed": (seeding, None),
    "what nothing compares": (
        hooks_of_states,
        lambda m: m._register_state_dict_hook(lambda *given: None) and None,
    ),
    "gradients off": (switching, None),
    "a new leaf": (learning, None),
    "a list of its own grows": (growing, None),
    "a layer made": (module_made, None),
}


def unplain(forward):
    """A module with the attributes that its forward asks for, and no others."""
    module = of(forward)()
    asked = forward.__code__.co_names
    if "sizes" in asked:
        type(module).sizes = {"scale": 2.0}
    for name, item in {"settings": {"scale": 2.0}, "shifts": [1]}.items():
        if name in asked:
            setattr(module, name, item)
    kinds = {"counter": Counter, "sly": Sly, "drawn": Drawn}
    kinds["partial"] = lambda: functools.partial(table.get, "scale")
    for name, kind in kinds.items():
        if name in asked:
            setattr(module, name, kind())
    for name in {"flag", "other"} & {*asked}:
        setattr(module, name, rl.ones(1))
    if "gain" in asked:
        module.flag.gain = 1.0
    return module


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("name", UNPLAIN)
def test_a_forward_that_does_more_runs_each_time(name, learns, capsys):
    global counter
    forward, change = UNPLAIN[name]
    told = []
    for compiles in (True, False):
        table["scale"], counter = 2.0, itertools.count()
        seen.clear()
        random.seed(0)
        rl.manual_seed(0)
        module = unplain(forward)
        called = rl.compile(module) if compiles else module
        results = []
        for number in range(12):
            if number in (7, 9) and change is not None:
                change(module)
            x = image().requires_grad_(learns)
            with rl.set_grad_enabled(learns):
                y = called(x)
            if y.requires_grad:
                y.sum().backward()
            results.append((y.detach(), x.grad, rl.rand(1)))
        told.append((results, capsys.readouterr().out))
    for found, wanted in zip(told[0][0], told[1][0], strict=True):
        for one, other in zip(found, wanted, strict=True):
            assert (one is None) == (other is None)
            assert one is None or rl.allclose(one, other, atol=1e-6), name
    assert told[0][1] == told[1][1]


def test_a_size_that_waited_is_left_out_as_soon_as_it_is_on_a_path():
    module = PLAIN["sizes"]()
    called = rl.compile(module)
    others = [rl.ones(rows, 4) for rows in range(3, 9)]
    with rl.no_grad():
        for _ in range(6):
            called(image())
        for x in others * 10 + [others[0]] * 70:
            called(x)
        before = times(called)
        for _ in range(3):
            assert rl.equal(called(others[0]), module(others[0]))
    assert times(called) == before + 3


def test_each_of_many_sizes_is_left_out():
    module = PLAIN["residual"]()
    called = rl.compile(module)
    sizes = [rl.ones(rows, 4) for rows in range(2, 18)]
    with rl.no_grad(), config.patch(other_size_calls=0, open_size_calls=0):
        for x in sizes * 6:
            called(x)
        before = times(called)
        for x in sizes:
            assert rl.equal(called(x), module(x))
    assert times(called) == before + len(sizes)
