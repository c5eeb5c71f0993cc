"""Parametrized tensors beside the oracle."""

from __future__ import annotations

import copy

import pytest

import rushlight as rl
from tests.nn.sides import assert_same_on_both_sides


def _skew(m):
    class Skew(m.nn.Module):
        def forward(self, x):
            return x.triu(1) - x.triu(1).T

        def right_inverse(self, x):
            return x.triu(1)

    return Skew()


def _pair(m):
    class Pair(m.nn.Module):
        def forward(self, size, direction):
            return size * direction

        def right_inverse(self, x):
            return x.norm(), x / x.norm()

    return Pair()


def _twice(m):
    class Twice(m.nn.Module):
        def forward(self, x):
            return 2 * x

        def right_inverse(self, x):
            return x / 2

    return Twice()


def _noted(m, result=None):
    """A parametrization with a fault: what it returns instead."""

    class Fault(m.nn.Module):
        def forward(self, x):
            return result(x)

    return Fault()


P = "nn.utils.parametrize"


def _of(m):
    return m.nn.utils.parametrize


PROGRAMS = {}


def program(function):
    PROGRAMS[function.__name__] = function
    return function


@program
def one_parametrization(m):
    layer = m.nn.Linear(3, 3)
    _of(m).register_parametrization(layer, "weight", _skew(m))
    result = layer(m.ones(2, 3))
    result.sum().backward()
    return (
        result,
        layer.weight,
        repr(layer),
        type(layer),
        _of(m).type_before_parametrizations(layer),
        dict(layer.state_dict()),
        layer.parametrizations.weight.original.grad,
        [name for name, _ in layer.named_parameters()],
    )


@program
def assigning(m):
    layer = m.nn.Linear(3, 3)
    _of(m).register_parametrization(layer, "weight", _skew(m))
    layer.weight = m.arange(9.0).reshape(3, 3)
    return layer.weight, layer.parametrizations.weight.original


@program
def several_in_a_row(m):
    layer = m.nn.Linear(3, 3)
    _of(m).register_parametrization(layer, "weight", _twice(m))
    _of(m).register_parametrization(layer, "weight", _skew(m))
    _of(m).register_parametrization(layer, "bias", _twice(m))
    layer.bias = m.ones(3)
    return layer.weight, layer.bias, repr(layer), list(layer.state_dict())


@program
def several_originals(m):
    layer = m.nn.Linear(3, 2)
    _of(m).register_parametrization(layer, "weight", _pair(m))
    before = layer.weight.clone()
    layer.weight = m.ones(2, 3)
    state = dict(layer.state_dict())
    _of(m).remove_parametrizations(layer, "weight")
    return before, state, layer.weight, type(layer), list(layer.state_dict())


@program
def removing_and_keeping_the_value(m):
    layer = m.nn.Linear(3, 3)
    original = layer.weight
    _of(m).register_parametrization(layer, "weight", _skew(m))
    _of(m).remove_parametrizations(layer, "weight")
    return (
        layer.weight,
        layer.weight is original,
        type(layer),
        hasattr(layer, "parametrizations"),
    )


@program
def removing_and_taking_the_original(m):
    layer = m.nn.Linear(3, 3)
    _of(m).register_parametrization(layer, "weight", _twice(m))
    _of(m).remove_parametrizations(layer, "weight", leave_parametrized=False)
    return layer.weight


@program
def a_buffer(m):
    norm = m.nn.BatchNorm1d(3)
    _of(m).register_parametrization(norm, "running_mean", _twice(m))
    return (
        norm.running_mean,
        list(norm.state_dict()),
        [n for n, _ in norm.named_buffers()],
    )


@program
def computed_once_when_cached(m):
    calls = []

    class Counted(m.nn.Module):
        def forward(self, x):
            calls.append(1)
            return x

    layer = m.nn.Linear(2, 2)
    _of(m).register_parametrization(layer, "weight", Counted())
    calls.clear()
    with _of(m).cached():
        same = layer.weight is layer.weight
        with _of(m).cached():
            layer.weight.sum()
    return len(calls), same, layer.weight is layer.weight


@program
def copying(m):
    layer = m.nn.Linear(3, 3)
    _of(m).register_parametrization(layer, "weight", _skew(m))
    copied = copy.deepcopy(layer)
    with m.no_grad():
        copied.parametrizations.weight.original.fill_(1.0)
    return copied.weight, layer.weight, type(copied) is type(layer)


@program
def transferring(m):
    source, target = m.nn.Linear(3, 3), m.nn.Linear(3, 3)
    _of(m).register_parametrization(source, "weight", _skew(m))
    _of(m).transfer_parametrizations_and_params(source, target)
    return target.weight, _of(m).is_parametrized(target, "weight")


@program
def changing_the_dtype_unsafely(m):
    layer = m.nn.Linear(2, 2)
    cast = _noted(m, lambda x: x.double())
    _of(m).register_parametrization(layer, "weight", cast, unsafe=True)
    return layer.weight


def _fault(name, result, tensor="weight"):
    def function(m):
        layer = m.nn.Linear(3, 2)
        _of(m).register_parametrization(layer, tensor, _noted(m, result))

    PROGRAMS[f"refusing {name}"] = function


_fault("another shape", lambda x: x.T)
_fault("another dtype", lambda x: x.double())
_fault("no tensor", lambda x: 3)
_fault("an unknown name", lambda x: x, "nope")


@program
def refusing_to_pickle(m):
    import pickle

    layer = m.nn.Linear(3, 3)
    _of(m).register_parametrization(layer, "weight", m.nn.Identity())
    pickle.dumps(layer)


@program
def refusing_to_remove_what_is_not_there(m):
    _of(m).remove_parametrizations(m.nn.Linear(1, 1), "weight")


@program
def refusing_to_assign_without_an_inverse(m):
    layer = m.nn.Linear(2, 2)
    _of(m).register_parametrization(layer, "weight", _noted(m, lambda x: x))
    layer.weight = m.ones(2, 2)


@program
def refusing_to_leave_several_originals(m):
    layer = m.nn.Linear(2, 2)
    _of(m).register_parametrization(layer, "weight", _pair(m))
    _of(m).remove_parametrizations(layer, "weight", leave_parametrized=False)


@program
def orthogonal_maps(m):
    results = []
    for shape in ((3, 3), (4, 2), (2, 4)):
        for kind in (None, "matrix_exp", "cayley", "householder"):
            layer = m.nn.Linear(*shape, bias=False, dtype=m.float64)
            m.nn.utils.parametrizations.orthogonal(layer, orthogonal_map=kind)
            gram = layer.weight @ layer.weight.T
            if shape[0] < shape[1]:
                gram = layer.weight.T @ layer.weight
            results.append(gram)
            if shape[0] == shape[1]:
                results.append(layer.weight)
    return results


@program
def orthogonal_without_a_base(m):
    results = []
    for kind in ("matrix_exp", "cayley", "householder"):
        layer = m.nn.Linear(3, 3, dtype=m.float64)
        orthogonal = m.nn.utils.parametrizations.orthogonal
        orthogonal(layer, orthogonal_map=kind, use_trivialization=False)
        layer.weight.sum().backward()
        results.append([layer.weight, layer.parametrizations.weight.original.grad])
    layer.weight = m.eye(3, dtype=m.float64).flip(0)
    return results, layer.weight


@program
def refusing_an_unknown_map(m):
    m.nn.utils.parametrizations.orthogonal(m.nn.Linear(2, 2), orthogonal_map="other")


@program
def refusing_a_vector(m):
    m.nn.utils.parametrizations.orthogonal(m.nn.Linear(2, 2), "bias")


@program
def weight_norms(m):
    results = []
    for dim in (0, 1, None):
        layer = m.nn.Conv1d(2, 3, 2)
        m.nn.utils.parametrizations.weight_norm(layer, dim=dim)
        layer(m.ones(1, 2, 4)).sum().backward()
        results.append([dict(layer.state_dict()), layer.weight])
        results.append([each.grad for each in layer.parameters()])
    return results


@program
def weight_norm_takes_the_older_ones_state(m):
    old = m.nn.utils.weight_norm(m.nn.Linear(3, 2))
    new = m.nn.utils.parametrizations.weight_norm(m.nn.Linear(3, 2))
    new.load_state_dict(old.state_dict())
    return new(m.ones(1, 3)), old(m.ones(1, 3))


@program
def spectral_norms(m):
    results = []
    for layer in (m.nn.Linear(3, 4), m.nn.ConvTranspose1d(2, 3, 2)):
        m.manual_seed(5)
        m.nn.utils.parametrizations.spectral_norm(layer, n_power_iterations=2)
        layer(
            m.ones(1, layer.weight.shape[0] - (layer.weight.ndim == 2), 3)[
                :, :, :3
            ].squeeze(1)
            if layer.weight.ndim == 2
            else m.ones(1, 2, 4)
        ).sum().backward()
        results.append([dict(layer.state_dict()), layer.eval().weight])
        results.append([each.grad for each in layer.parameters()])
    bias = m.nn.utils.parametrizations.spectral_norm(m.nn.Linear(3, 4), "bias")
    return results, bias.bias


@program
def refusing_a_dimension_that_is_not_there(m):
    m.nn.utils.parametrizations.spectral_norm(m.nn.Linear(3, 4), dim=2)


@program
def older_spectral_norm(m):
    layer = m.nn.utils.spectral_norm(m.nn.Linear(3, 4), n_power_iterations=2)
    layer(m.ones(2, 3)).sum().backward()
    state = dict(layer.state_dict())
    metadata = layer.state_dict()._metadata[""]
    grads = [each.grad for each in layer.parameters()]
    other = m.nn.utils.spectral_norm(m.nn.Linear(3, 4))
    other.load_state_dict(layer.state_dict())
    m.nn.utils.remove_spectral_norm(layer)
    return (
        state,
        metadata,
        grads,
        other.eval()(m.ones(1, 3)),
        list(layer.state_dict()),
        layer.weight,
    )


@program
def older_spectral_norm_reads_states_without_v(m):
    layer = m.nn.utils.spectral_norm(m.nn.Linear(3, 4, dtype=m.float64))
    layer(m.ones(2, 3, dtype=m.float64))
    state = dict(layer.state_dict())
    state["weight"] = layer.weight.detach()
    del state["weight_v"]
    other = m.nn.utils.spectral_norm(m.nn.Linear(3, 4, dtype=m.float64))
    other.load_state_dict(state)
    return other.eval()(m.ones(1, 3, dtype=m.float64))


@program
def refusing_spectral_norm_twice(m):
    m.nn.utils.spectral_norm(m.nn.utils.spectral_norm(m.nn.Linear(2, 2)))


@program
def refusing_to_remove_no_spectral_norm(m):
    m.nn.utils.remove_spectral_norm(m.nn.Linear(2, 2))


@program
def refusing_to_skip_what_takes_no_device(m):
    m.nn.utils.skip_init(m.nn.ReLU)


@program
def older_spectral_norm_of_small_weights_and_other_dimensions(m):
    results = []
    for layer, options in (
        (m.nn.Linear(3, 4), {"eps": 0.5}),
        (m.nn.Linear(3, 4), {"dim": 1}),
        (m.nn.ConvTranspose1d(2, 3, 2), {}),
    ):
        with m.no_grad():
            layer.weight.mul_(1e-2)
        m.manual_seed(5)
        m.nn.utils.spectral_norm(layer, **options)
        rows = m.ones(2, 3) if isinstance(layer, m.nn.Linear) else m.ones(1, 2, 4)
        for _ in range(2):
            results.append(layer(rows))
        results.append(dict(layer.state_dict()))
    return results


@program
def states_of_older_spectral_norms(m):
    m.manual_seed(5)
    layer = m.nn.utils.spectral_norm(m.nn.Linear(3, 4), n_power_iterations=2)
    layer(m.ones(2, 3))
    state = dict(layer.state_dict())  # whose versions are lost
    layer.load_state_dict(state)
    first = {
        "weight": layer.weight.detach().clone(),
        **{key: value.clone() for key, value in state.items() if "_v" not in key},
    }
    m.manual_seed(9)
    other = m.nn.utils.spectral_norm(m.nn.Linear(3, 4))
    other.load_state_dict(first)
    kept = dict(other.state_dict())
    del first["weight_u"]
    found = other.load_state_dict(first, strict=False)
    return kept, sorted(found.missing_keys), sorted(found.unexpected_keys)


@program
def spectral_norm_along_a_dimension_counted_from_the_end(m):
    results = []
    for dim in (-1, -2):
        m.manual_seed(5)
        layer = m.nn.Linear(3, 4)
        m.nn.utils.parametrizations.spectral_norm(layer, dim=dim)
        results.append([layer(m.ones(2, 3)), dict(layer.state_dict())])
    return results


@program
def maps_of_orthogonal_matrices(m):
    names = []
    for rows, columns, dtype in (
        (3, 3, m.float32),
        (3, 4, m.float32),
        (3, 3, m.complex64),
        (3, 4, m.complex64),
    ):
        layer = m.nn.Linear(columns, rows, dtype=dtype)
        m.nn.utils.parametrizations.orthogonal(layer)
        names.append(layer.parametrizations.weight[0].orthogonal_map.name)
    return names


def doubling(m):
    class Doubling(m.nn.Module):
        def forward(self, x):
            return 2 * x

    return Doubling()


@program
def a_further_parametrization_that_changes_the_sizes_is_refused(m):
    class Cut(m.nn.Module):
        def forward(self, x):
            return x[:2]

    layer = m.nn.Linear(3, 4)
    m.nn.utils.parametrize.register_parametrization(layer, "weight", doubling(m))
    m.nn.utils.parametrize.register_parametrization(layer, "weight", Cut())


@program
def a_further_parametrization_that_changes_the_type_is_refused(m):
    class Wide(m.nn.Module):
        def forward(self, x):
            return x.double()

    layer = m.nn.Linear(3, 4)
    m.nn.utils.parametrize.register_parametrization(layer, "weight", doubling(m))
    m.nn.utils.parametrize.register_parametrization(layer, "weight", Wide())


@pytest.mark.parametrize("name", PROGRAMS)
def test_parametrizations_are_the_oracles(name):
    assert_same_on_both_sides(PROGRAMS[name])


def test_skipped_modules_are_on_the_device_asked():
    layer = rl.nn.utils.skip_init(rl.nn.Linear, 3, 2, dtype=rl.float64)
    assert layer.weight.device.type == "cpu"
    assert layer.weight.dtype is rl.float64


def test_weights_of_convolutions_change_their_memory_format():
    model = rl.nn.Sequential(rl.nn.Conv2d(4, 4, 3), rl.nn.ConvTranspose3d(4, 4, 3))
    before = [each.detach().clone() for each in model.parameters()]
    convert = rl.nn.utils.convert_conv2d_weight_memory_format
    assert convert(model, rl.channels_last) is model
    assert model[0].weight.is_contiguous(memory_format=rl.channels_last)
    assert model[1].weight.is_contiguous()
    rl.nn.utils.convert_conv3d_weight_memory_format(model, rl.channels_last_3d)
    assert model[1].weight.is_contiguous(memory_format=rl.channels_last_3d)
    for old, new in zip(before, model.parameters()):
        assert bool((old == new).all())


def test_each_matrix_of_a_batch_is_made_orthogonal_as_pytorchs():
    torch = pytest.importorskip("torch", reason="the oracle is not installed")
    start = [
        [[2.0, 1.0], [0.5, -3.0], [1.0, 1.5]],
        [[-1.0, 0.3], [2.0, 2.0], [0.1, 4.0]],
    ]
    for kind in ("householder", "matrix_exp", "cayley"):
        made = []
        for package in (rl, torch):
            package.manual_seed(0)
            module = package.nn.Module()
            module.weight = package.nn.Parameter(package.tensor(start))
            package.nn.utils.parametrizations.orthogonal(
                module, "weight", orthogonal_map=kind
            )
            module.weight = package.linalg.qr(package.tensor(start))[0]
            made.append(module.weight.detach().flatten().tolist())
        assert made[0] == pytest.approx(made[1], abs=1e-5), kind
