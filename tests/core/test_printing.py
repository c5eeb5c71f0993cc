import re

import pytest

import rushlight as rl

torch = pytest.importorskip("torch", reason="the oracle is not installed")

SHAPES = [
    (),
    (1,),
    (5,),
    (0,),
    (0, 3),
    (30,),
    (3, 4),
    (2, 3, 4),
    (40, 50),
    (12, 12, 12),
]
MAKERS = {
    "fractions": lambda shape: torch.rand(shape),
    "large": lambda shape: torch.randn(shape) * 1e5,
    "small": lambda shape: torch.randn(shape) * 1e-6,
    "integers": lambda shape: torch.randint(-500, 500, shape),
    "whole floats": lambda shape: torch.randint(0, 9, shape).float(),
    "large whole floats": lambda shape: torch.randint(0, 3, shape).float() * 1e9,
    "truth values": lambda shape: torch.rand(shape) > 0.5,
    "float64": lambda shape: torch.randn(shape, dtype=torch.float64),
    "bfloat16": lambda shape: torch.randn(shape).bfloat16(),
    "complex64": lambda shape: torch.randn(shape, dtype=torch.complex64),
    "infinities": lambda shape: torch.rand(shape).masked_fill_(
        torch.rand(shape) > 0.7, float("inf")
    ),
    "not numbers": lambda shape: torch.full(shape, float("nan")),
    "zeros": lambda shape: torch.zeros(shape),
}
OPTIONS = [
    {},
    {"precision": 2},
    {"sci_mode": True},
    {"sci_mode": False},
    {"linewidth": 40, "edgeitems": 2, "threshold": 10},
    {"edgeitems": 0, "threshold": 5},
    {"profile": "short"},
]


def normal(text):
    """The text with our package's name, which is longer, as PyTorch's."""
    return re.sub(r",\s+dtype", ", dtype", text.replace("rushlight.", "torch."))


@pytest.fixture(autouse=True)
def seeded_and_put_back():
    torch.manual_seed(0)
    yield
    for library in torch, rl:
        library.set_printoptions(profile="default", sci_mode=None)


@pytest.mark.parametrize("make", MAKERS)
def test_text_is_pytorchs_for_every_shape_and_option(make):
    for options in OPTIONS:
        for library in torch, rl:
            library.set_printoptions(profile="default", sci_mode=None)
            library.set_printoptions(**options)
        for shape in SHAPES:
            tensor = MAKERS[make](shape)
            ours = rl.from_dlpack(tensor)
            assert normal(repr(ours)) == normal(repr(tensor)), (options, shape)


def test_strided_windows_print_their_own_elements():
    tensor = torch.arange(48.0).view(6, 8).t()[1:, ::2]
    assert repr(rl.from_dlpack(tensor)) == repr(tensor)


def test_leaves_say_that_they_require_a_gradient():
    assert (
        repr(rl.ones(2, requires_grad=True)) == "tensor([1., 1.], requires_grad=True)"
    )


def test_computed_tensors_name_their_node():
    computed = rl.ones(2, requires_grad=True) * 2
    assert repr(computed) == "tensor([2., 2.], grad_fn=<MulBackward0>)"


def test_meta_tensors_show_sizes_in_place_of_numbers():
    assert repr(rl.empty(2, 3, device="meta")) == (
        "tensor(..., device='meta', size=(2, 3))"
    )


def test_options_are_put_back_after_the_block():
    from rushlight.io.printing import get_printoptions, printoptions

    before = get_printoptions()
    with printoptions(precision=1):
        assert repr(rl.tensor([0.25])) == "tensor([0.2])"
    assert get_printoptions() == before


def test_an_unknown_profile_is_named():
    with pytest.raises(ValueError, match="unknown profile 'loud'"):
        rl.set_printoptions(profile="loud")


@pytest.mark.parametrize("value", [0.5, 3, True, 1 + 2j, [1.0], []])
@pytest.mark.parametrize("spec", ["", ">8"])
def test_a_single_number_is_formatted_as_the_number(value, spec):
    texts = []
    for module in (rl, torch):
        try:
            texts.append(format(module.tensor(value), spec))
        except TypeError:
            texts.append(TypeError)
    assert texts[0] == texts[1]


def test_parameters_and_sizes_alone_are_formatted_as_tensors():
    for module in (rl, torch):
        parameter = module.nn.Parameter(module.tensor(0.5))
        assert f"{parameter}".startswith("Parameter containing")
        assert f"{module.empty((), device='meta')}".startswith("tensor(...")
        assert f"{module.tensor(0.5, requires_grad=True)}" == "0.5"


def test_a_view_whose_history_cannot_follow_prints_an_invalid_node():
    def texts(m):
        base = m.ones(3, requires_grad=True) * 1
        with m.no_grad():
            unrecorded = base[:2]
        first = base.unbind(0)[0]
        base.mul_(2)
        return repr(unrecorded), repr(first)

    torch = pytest.importorskip("torch")
    assert texts(rl) == texts(torch)
