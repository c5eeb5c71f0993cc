"""Modules called with other tensors, as the oracle calls them."""

from __future__ import annotations

import warnings

import pytest

import rushlight

torch = pytest.importorskip("torch", reason="the oracle is not installed")
BOTH = (torch, rushlight)


def kinds(m):
    """Three modules: plain, with tied tensors, and one that writes to its own."""

    class Plain(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = m.nn.Linear(1, 1)
            self.buffer = m.nn.Buffer(m.ones(1))
            self.number = 0.0

        def forward(self, x):
            return self.layer(x) + self.buffer

    class Tied(Plain):
        def __init__(self):
            super().__init__()
            self.bias, self.other = self.layer.bias, self.buffer

        def forward(self, x):
            return super().forward(x) + self.bias + self.other

    class Writing(Plain):
        def forward(self, x):
            self.buffer = self.buffer + x.sum()
            self.buffer.add_(1)
            self.further = m.nn.Parameter(m.ones(1))
            return self.buffer

    return {"plain": Plain, "tied": Tied, "writing": Writing}


class Strange:
    def __repr__(self):
        return "<strange>"


WEIGHT, BIAS, BUFFER = "layer.weight", "layer.bias", "buffer"
WHOLE = {WEIGHT: [[2.0]], BIAS: [5.0], BUFFER: [3.0]}
CASES = {
    "all": ("plain", WHOLE, {}),
    "some": ("plain", {WEIGHT: [[2.0]]}, {}),
    "strict": ("plain", WHOLE, {"strict": True}),
    "some, strict": ("plain", {WEIGHT: [[2.0]]}, {"strict": True}),
    "further": ("plain", {**WHOLE, "further": [1.0]}, {}),
    "further, strict": ("plain", {**WHOLE, "further": [1.0]}, {"strict": True}),
    "both": ("plain", {WEIGHT: [[2.0]], "further": [1.0]}, {"strict": True}),
    "none": ("plain", {**WHOLE, BIAS: None}, {}),
    "no tensor": ("plain", {WEIGHT: Strange()}, {}),
    "a number": ("plain", {WEIGHT: 3.0}, {}),
    "for a number": ("plain", {"number": [1.0]}, {}),
    "no module": ("plain", {"missing.weight": [1.0]}, {}),
    "too deep": ("plain", {"layer.weight.x": [1.0]}, {}),
    "no name": ("plain", {"": [1.0]}, {}),
    "tied": ("tied", {BIAS: [5.0], BUFFER: [3.0]}, {}),
    "tied, other names": ("tied", {"bias": [5.0], "other": [3.0]}, {}),
    "tied, apart": ("tied", {BIAS: [5.0]}, {"tie_weights": False}),
    "tied, two values": ("tied", {BIAS: [5.0], "bias": [6.0]}, {}),
    "tied, strict": ("tied", WHOLE, {"strict": True}),
    "tied, strict, apart": ("tied", WHOLE, {"strict": True, "tie_weights": False}),
    "writing": ("writing", {BUFFER: [1.0]}, {}),
}


def outcome(m, call, name):
    """What a call gives, what is left of the module, and of the dictionary."""
    kind, given, options = CASES[name]
    module = kinds(m)[kind]()
    own = {k: v.data_ptr() for k, v in module.state_dict().items()}
    for value in module.state_dict().values():
        value.fill_(0.5)
    values = {k: m.tensor(v) if isinstance(v, list) else v for k, v in given.items()}
    try:
        found = call(module, values, m.full((1, 1), 4.0), **options).tolist()
    except Exception as error:
        found = [type(error).__name__, str(error).partition(": Param")[0]]
    after = {k: v.data_ptr() == own.get(k) for k, v in module.state_dict().items()}
    told = {
        k: v.tolist() if hasattr(v, "tolist") else str(v) for k, v in values.items()
    }
    return found, after, told


@pytest.mark.parametrize("name", CASES)
def test_a_module_is_called_with_other_tensors_as_by_the_oracle(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the older one of the two is deprecated
        for calls in (
            [m.func.functional_call for m in BOTH],
            [m.nn.utils.stateless.functional_call for m in BOTH],
        ):
            theirs, ours = (outcome(*pair, name) for pair in zip(BOTH, calls))
            assert ours == theirs


def test_programs_and_modules_for_several_devices_keep_their_tensors():
    layer = rushlight.nn.Linear(1, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = rushlight.jit.script(layer)
        traced = rushlight.jit.trace(layer, rushlight.ones(1, 1))
    for module, word in (
        (scripted, "Jitted modules"),
        (traced, "Jitted modules"),
        (rushlight.nn.DataParallel(layer), "nn.DataParallel module"),
    ):
        with pytest.raises(RuntimeError, match=f"can't be used with {word}"):
            rushlight.func.functional_call(module, {}, rushlight.ones(1, 1))


def test_a_method_of_a_script_may_call_itself_otherwise():
    class Named(rushlight.nn.Module):
        def forward(this, x):
            return this.twice(x) + 1

        def twice(me, x):
            return x * 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert rushlight.jit.script(Named())(rushlight.ones(1)).tolist() == [3.0]


def test_tensors_are_what_a_program_was_told():
    layouts = {"layout": "sparse_coo"}
    for size, stride, dtype, options in (
        ([1], [1], "float32", {}),
        (None, None, None, {"device": "cpu", "layout": "strided"}),
        (None, None, "int32", {}),
        (None, [3], "float32", {}),
        ([3], [1], "float32", {}),
        (None, None, None, {"device": "meta"}),
        (None, None, None, layouts),
    ):
        found = []
        for m in BOTH:
            given = dict(options)
            if "layout" in given:
                given["layout"] = getattr(m, given["layout"])
            kind = dtype and getattr(m, dtype)
            try:
                m._assert_tensor_metadata(m.tensor([0.5]), size, stride, kind, **given)
                found.append("as told")
            except RuntimeError as error:
                found.append(str(error).partition(",")[0])
        assert found[0] == found[1]


def test_limits_of_a_type_are_equal_to_themselves():
    for m in BOTH:
        assert m.finfo() == m.finfo(m.float32) == m.finfo(m.complex64)
        assert m.finfo(m.float32) != m.finfo(m.float64)
        assert m.iinfo(m.int8) == m.iinfo(m.int8)
        for wrong in ("float32", None):
            with pytest.raises(TypeError, match="must be .*dtype, not"):
                m.finfo(wrong)
    for name in ("int16", "int32", "int64", "uint64"):
        theirs, ours = (repr(m.iinfo(getattr(m, name))) for m in BOTH)
        assert ours == theirs


class Forgetful(rushlight.nn.Module):
    """Looks at an attribute that it has not, and may drop it."""

    def forward(self, x, drop):
        x = x * self.extra
        if drop:
            del self.extra
        return x


def test_what_a_module_had_not_is_gone_after_the_call():
    for drop in (False, True):
        module, given = Forgetful(), {"extra": rushlight.tensor(2.0)}
        extra = given["extra"]
        assert (
            rushlight.func.functional_call(
                module, given, (rushlight.ones(1), drop)
            ).item()
            == 2.0
        )
        assert not hasattr(module, "extra")
        assert given["extra"] is extra
