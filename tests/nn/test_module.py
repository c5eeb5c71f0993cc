"""What a module keeps, and how it answers: attributes, trees, hooks, state."""

from __future__ import annotations

import copy
import inspect
import pickle

import pytest

import rushlight as rl
from rushlight import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(rl.ones(2))
        self.register_buffer("seen", rl.zeros(2))
        self.register_buffer("scratch", rl.zeros(1), persistent=False)
        self.inner = nn.Linear(2, 2)
        self.again = self.inner

    def forward(self, x, *, shift=0.0):
        return self.inner(x) * self.scale + shift


def twin(torch):
    """The same class over the oracle's modules."""

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(2))
            self.register_buffer("seen", torch.zeros(2))
            self.register_buffer("scratch", torch.zeros(1), persistent=False)
            self.inner = torch.nn.Linear(2, 2)
            self.again = self.inner

        def forward(self, x, *, shift=0.0):
            return self.inner(x) * self.scale + shift

    return Block()


def names(pairs):
    return [name for name, _ in pairs]


@pytest.mark.parametrize(
    "options",
    [{}, {"prefix": "p"}, {"recurse": False}, {"remove_duplicate": False}],
    ids=str,
)
def test_members_are_found_under_the_oracles_names(torch, options):
    ours, theirs = Block(), twin(torch)
    for method in ("named_parameters", "named_buffers"):
        assert names(getattr(ours, method)(**options)) == names(
            getattr(theirs, method)(**options)
        )
    assert names(ours.named_children()) == names(theirs.named_children())
    assert names(ours.named_modules()) == names(theirs.named_modules())
    assert len(list(ours.parameters())) == 3


def test_printing_equals_the_oracles(torch):
    def build(nn):
        return nn.Sequential(
            nn.Conv2d(1, 2, 3),
            nn.ModuleList([nn.ReLU(), nn.ReLU(), nn.Linear(2, 3)]),
            nn.ModuleDict({"a": nn.Sequential(), "b": nn.Dropout()}),
            nn.ParameterList([nn.Parameter(nn.Linear(1, 2).bias.detach())]),
            nn.ModuleList(),
        )

    text = repr(build(nn)).replace("rushlight.", "torch.")
    assert text == repr(build(torch.nn))
    assert repr(Block()) == repr(twin(torch))


def test_a_parameter_prints_with_a_heading():
    text = repr(nn.Parameter(rl.ones(2)))
    assert text == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"


@pytest.mark.parametrize(
    "act",
    [
        lambda m, p, t: setattr(m, "scale", 3.0),
        lambda m, p, t: setattr(m, "scale", t.ones(2)),
        lambda m, p, t: setattr(m, "inner", t.ones(2)),
        lambda m, p, t: setattr(m, "seen", "text"),
        lambda m, p, t: m.register_parameter("a.b", None),
        lambda m, p, t: m.register_parameter("", None),
        lambda m, p, t: m.register_parameter("forward", None),
        lambda m, p, t: m.register_parameter("new", t.ones(2)),
        lambda m, p, t: m.register_parameter("new", p(t.ones(2)) * 2),
        lambda m, p, t: m.register_parameter(3, None),
        lambda m, p, t: m.register_buffer("inner", t.ones(2)),
        lambda m, p, t: m.register_buffer("new", 4),
        lambda m, p, t: m.add_module("new", 4),
        lambda m, p, t: m.add_module("a.b", None),
        lambda m, p, t: m.missing,
        lambda m, p, t: delattr(m, "missing"),
        lambda m, p, t: m.get_submodule("inner.weight"),
        lambda m, p, t: m.get_parameter("inner.missing"),
        lambda m, p, t: m.get_parameter("seen"),
        lambda m, p, t: m.get_buffer("scale"),
        lambda m, p, t: m.train("yes"),
        lambda m, p, t: m.to(t.int64),
        lambda m, p, t: m.load_state_dict([]),
    ],
)
def test_misuse_is_refused_in_the_oracles_words(torch, act):
    with pytest.raises(Exception) as expected:
        act(twin(torch), torch.nn.Parameter, torch)
    with pytest.raises(Exception) as found:
        act(Block(), nn.Parameter, rl)
    assert type(found.value) is type(expected.value)
    text = str(expected.value)
    if "torch.int64" not in text and "torch.FloatTensor" not in text:
        assert str(found.value) == text


def test_members_need_init_to_have_run():
    class Early(nn.Module):
        def __init__(self, value):
            self.member = value

    for value, what in (
        (nn.Parameter(rl.ones(1)), "parameters"),
        (nn.ReLU(), "module"),
    ):
        with pytest.raises(AttributeError, match=f"cannot assign {what} before"):
            Early(value)
    with pytest.raises(TypeError, match=r"takes 1 positional argument but 2 were"):
        nn.Module(3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        nn.Module(size=3)
    with pytest.raises(NotImplementedError, match='missing the required "forward"'):
        nn.Module()(1)


def test_assignment_moves_a_name_between_tables():
    module = Block()
    del module.scale
    assert not hasattr(module, "scale")
    module.scale = rl.ones(1)
    assert "scale" not in module._parameters
    module.scale = nn.Parameter(rl.ones(1))
    assert "scale" in module._parameters
    assert "scale" not in module.__dict__
    module.inner = None
    assert module._modules["inner"] is None
    module.seen = None
    assert module.seen is None
    module.kept = nn.Buffer(rl.ones(1), persistent=False)
    assert "kept" in module._buffers
    assert "kept" not in module.state_dict()


def test_state_dict_equals_the_oracles(torch):
    ours, theirs = Block().state_dict(), twin(torch).state_dict()
    assert list(ours) == list(theirs)
    assert ours._metadata == theirs._metadata
    assert list(Block().state_dict(prefix="m.")) == list(
        twin(torch).state_dict(prefix="m.")
    )
    assert not ours["scale"].requires_grad
    assert Block().state_dict(keep_vars=True)["scale"].requires_grad


def test_loading_restores_values_in_place():
    source, target = Block(), Block()
    with rl.no_grad():
        source.scale.fill_(3.0)
    held = target.scale
    keys = target.load_state_dict(source.state_dict())
    assert str(keys) == "<All keys matched successfully>"
    assert held is target.scale
    assert held.tolist() == [3.0, 3.0]


def test_loading_reports_all_faults_at_once_in_the_oracles_words(torch):
    def spoil(state, ones):
        del state["inner.weight"]
        state["inner.bias"] = ones(5)
        state["scale"] = 3
        state["other"] = ones(1)
        state["inner.deep.er"] = ones(1)
        return state

    def text_of(module, state):
        with pytest.raises(RuntimeError) as caught:
            module.load_state_dict(state)
        return str(caught.value)

    expected = text_of(twin(torch), spoil(twin(torch).state_dict(), torch.ones))
    found = text_of(Block(), spoil(Block().state_dict(), rl.ones))
    assert found.replace("rushlight.Size", "torch.Size") == expected


def test_loading_without_strictness_returns_the_odd_keys():
    state = Block().state_dict()
    del state["scale"]
    state["other"] = rl.ones(1)
    keys = Block().load_state_dict(state, strict=False)
    assert keys.missing_keys == ["scale"]
    assert keys.unexpected_keys == ["other"]


def test_assigning_takes_the_tensors_themselves():
    module, state = Block(), Block().state_dict()
    module.scale.requires_grad_(False)
    module.load_state_dict(state, assign=True)
    assert module.seen is state["seen"]
    assert module.scale.data_ptr() == state["scale"].data_ptr()
    assert not module.scale.requires_grad


def test_extra_state_is_kept():
    class Counter(nn.Module):
        count = 0

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    source, target = nn.Sequential(Counter()), nn.Sequential(Counter())
    source[0].count = 5
    state = source.state_dict()
    assert list(state) == ["0._extra_state"]
    target.load_state_dict(state)
    assert target[0].count == 5
    with pytest.raises(RuntimeError, match='Missing key.*"0._extra_state"'):
        target.load_state_dict({})


def test_batch_norm_reads_states_without_a_batch_count():
    state = nn.BatchNorm1d(2).state_dict()
    del state["num_batches_tracked"]
    state._metadata[""]["version"] = 1
    nn.BatchNorm1d(2).load_state_dict(state)


def test_forward_hooks_run_in_order_and_may_change_values():
    seen = []
    module = Block()

    def before(module, args):
        seen.append("before")
        return (args[0] * 2,)

    def after(module, args, kwargs, output):
        seen.append(("after", kwargs))
        return output + 100

    module.register_forward_pre_hook(before)
    module.register_forward_pre_hook(lambda *_: seen.append("first"), prepend=True)
    handle = module.register_forward_hook(after, with_kwargs=True)
    x = rl.ones(1, 2)
    result = module(x, shift=1.0)
    assert seen == ["first", "before", ("after", {"shift": 1.0})]
    expected = module.forward(x * 2, shift=1.0) + 100
    assert result.tolist() == expected.tolist()
    handle.remove()
    assert module(x, shift=1.0).tolist() != result.tolist()


def test_always_called_hooks_run_after_an_error():
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("broken")

    seen = []
    module = Broken()
    module.register_forward_hook(lambda *_: seen.append("always"), always_call=True)
    module.register_forward_hook(lambda *_: seen.append("otherwise"))
    with pytest.raises(ValueError, match="broken"):
        module(1)
    assert seen == ["always"]


def test_full_backward_hooks_see_and_change_gradients(torch):
    def run(nn, ones):
        module = nn.Linear(2, 1)
        for parameter in module.parameters():
            parameter.data.fill_(1.0)
        seen = []

        def before(module, grads):
            seen.append([each.tolist() for each in grads])
            return (grads[0] * 2,)

        def after(module, grads_in, grads_out):
            seen.append([each.tolist() for each in (*grads_in, *grads_out)])
            return (grads_in[0] * 10,)

        module.register_full_backward_pre_hook(before)
        module.register_full_backward_hook(after)
        x = ones(3, 2).requires_grad_()
        module(x).sum().backward()
        return seen, x.grad.tolist(), module.weight.grad.tolist()

    assert run(nn, rl.ones) == run(torch.nn, torch.ones)


def test_global_hooks_see_every_module():
    from rushlight.nn.modules import module as registry

    seen = []
    handle = registry.register_module_forward_hook(
        lambda module, *_: seen.append(type(module).__name__)
    )
    try:
        nn.Sequential(nn.ReLU(), nn.Tanh())(rl.ones(1))
    finally:
        handle.remove()
    nn.ReLU()(rl.ones(1))
    assert seen == ["ReLU", "Tanh", "Sequential"]


def test_registration_hooks_may_replace_what_is_registered():
    from rushlight.nn.modules import module as registry

    handle = registry.register_module_parameter_registration_hook(
        lambda module, name, parameter: nn.Parameter(rl.zeros(1))
    )
    try:
        module = nn.Module()
        module.weight = nn.Parameter(rl.ones(3))
    finally:
        handle.remove()
    assert module.weight.tolist() == [0.0]


def test_state_hooks_see_and_edit_the_state():
    module = nn.Linear(1, 1)
    module.register_state_dict_pre_hook(
        lambda module, prefix, keep_vars: module.bias.data.fill_(7.0)
    )
    module.register_state_dict_post_hook(
        lambda module, state, prefix, metadata: state.pop(prefix + "weight") and None
    )
    state = module.state_dict()
    assert list(state) == ["bias"]
    assert state["bias"].tolist() == [7.0]
    target = nn.Linear(1, 1)
    target.register_load_state_dict_post_hook(
        lambda module, keys: keys.missing_keys.clear()
    )
    target.load_state_dict(state)
    assert target.bias.tolist() == [7.0]


def test_conversion_keeps_parameter_objects():
    module = Block()
    held = module.scale
    module.double()
    assert module.scale is held
    assert held.dtype is rl.float64
    assert module.seen.dtype is rl.float64
    module.to(rl.float32)
    assert held.dtype is rl.float32
    module.to("meta")
    assert module.scale.is_meta


def test_modes_and_gradients_reach_the_whole_tree():
    module = nn.Sequential(Block(), nn.Dropout())
    assert module.eval() is module
    assert not any(each.training for each in module.modules())
    module.train()
    assert module[1].training
    module(rl.ones(1, 2)).sum().backward()
    module.zero_grad(set_to_none=False)
    assert module[0].scale.grad.tolist() == [0.0, 0.0]
    module.zero_grad()
    assert module[0].scale.grad is None
    module.requires_grad_(False)
    assert not any(each.requires_grad for each in module.parameters())
    visited = []
    module.apply(visited.append)
    assert visited[-1] is module


def test_modules_survive_copying_and_pickling():
    module = nn.Sequential(Block(), nn.BatchNorm1d(2)).double()
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert repr(twin) == repr(module)
        assert twin[0].again is twin[0].inner
        for (name, a), (_, b) in zip(
            module.state_dict().items(), twin.state_dict().items()
        ):
            assert a.tolist() == b.tolist(), name
            assert a.dtype is b.dtype
            assert a.data_ptr() != b.data_ptr()
        assert all(isinstance(each, nn.Parameter) for each in twin.parameters())


def test_sequential_is_a_list_of_modules(torch):
    def act(nn):
        model = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.Sigmoid())
        log = [len(model), repr(model[-1]), repr(model[1:])]
        model[0] = nn.Identity()
        del model[1]
        model.append(nn.GELU())
        model.insert(1, nn.SiLU())
        model += nn.Sequential(nn.ELU())
        log += [repr(model), repr(model * 2), repr(model.pop(0)), repr(model)]
        for bad in (
            lambda: model[9],
            lambda: model + 3,
            lambda: model * 0,
            lambda: model * "a",
            lambda: model.insert(40, nn.ReLU()),
        ):
            with pytest.raises(Exception) as caught:
                bad()
            log.append(type(caught.value).__name__)
        return log

    assert act(nn) == act(torch.nn)


def test_module_list_and_dict_behave_like_the_oracles(torch):
    def act(nn):
        items = nn.ModuleList([nn.ReLU()])
        items.extend([nn.Tanh(), nn.Tanh()])
        items.insert(1, nn.GELU())
        del items[0]
        log = [repr(items), repr(items[1:]), repr(items + [nn.ELU()]), len(items)]
        table = nn.ModuleDict({"a": nn.ReLU()})
        table.update([("b", nn.Tanh())])
        log += [list(table), "a" in table, repr(table.pop("a")), repr(table)]
        for bad in (
            lambda: table.update(3),
            lambda: table.update([("a",)]),
            lambda: table.update([4]),
            lambda: table["zzz"],
        ):
            with pytest.raises(Exception) as caught:
                bad()
            log.append((type(caught.value).__name__, str(caught.value)))
        return log

    assert act(nn) == act(torch.nn)


def test_parameter_containers_behave_like_the_oracles(torch):
    def act(nn, lib):
        items = nn.ParameterList([lib.ones(2), nn.Parameter(lib.ones(1, 2)), "text"])
        items.append(lib.zeros(1))
        log = [len(items), [n for n, _ in items.named_parameters()], repr(items[1:3])]
        table = nn.ParameterDict({"b": lib.ones(1), "a": lib.ones(2)})
        table["c"] = lib.zeros(3)
        table.setdefault("d")
        log += [
            list(table),
            list(table.keys()),
            table.get("zzz", 5),
            [n for n, _ in table.named_parameters()],
            list(reversed(table)),
        ]
        table.pop("a")
        other = table | nn.ParameterDict({"e": lib.ones(1)})
        log += [list(other), repr(table.popitem()[1]), list(table)]
        return log

    text = str(act(nn, rl)).replace("rushlight.", "torch.")
    assert text == str(act(torch.nn, torch))


def test_functional_call_leaves_the_module_as_it_was():
    from rushlight.nn.utils.stateless import functional_call

    module = nn.Linear(2, 1)
    before = module.weight
    values = {"weight": rl.ones(1, 2), "bias": rl.ones(1)}
    with pytest.warns(FutureWarning, match="functional_call"):
        found = functional_call(module, values, rl.ones(1, 2))
    assert found.tolist() == [[3.0]]
    assert module.weight is before


def test_a_call_is_a_method_that_hands_arguments_on():
    module, x, called = Block(), rl.randn(3, 2), nn.Module.__call__
    assert called.__name__ == "_wrapped_call_impl"
    assert str(inspect.signature(called)) == "(self, *args, **kwargs)"
    for found in (called(module, x, shift=1.0), module.__call__(x, shift=1.0)):
        rl.testing.assert_close(found, module.forward(x, shift=1.0))
    with pytest.raises(TypeError, match="needs the module"):
        called()
    with pytest.raises(
        TypeError, match="takes 2 positional arguments but 3 were given"
    ):
        module(x, x)
