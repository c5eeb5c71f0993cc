"""Calls that follow a plan give what their functions give, whatever is odd about them."""

import pytest

import rushlight as rl
from rushlight.dispatch.launch_cache import outcomes
from rushlight.kernels.matmul.matmul_kernel_registry import width_of
from rushlight.nn import functional as F
from rushlight.operators.matmul.linear_packed import pack_weight


def planned(name, call, times=4):
    """The results of a call made several times; it has a plan by the last of them."""
    before = outcomes().get(name, (0, 0))
    found = [call() for _ in range(times)]
    written, refused = outcomes().get(name, (0, 0))
    assert (written, refused) == (before[0] + 1, before[1])
    return found


def image(*sizes):
    return rl.arange(float(rl.Size(sizes).numel())).reshape(sizes) / 7


COMPOSITES = {
    "batch_norm": lambda: F.batch_norm(image(2, 3, 5), rl.ones(3), rl.ones(3)),
    "scaled_dot_product_attention": lambda: F.scaled_dot_product_attention(
        image(1, 2, 3, 4), image(1, 2, 5, 4), image(1, 2, 5, 4)
    ),
    "cosine_similarity": lambda: F.cosine_similarity(image(3, 7), image(3, 7) + 1),
    "cdist": lambda: rl.cdist(image(3, 11), image(2, 11)),
    "einsum": lambda: rl.einsum("ijk,kl->il", image(2, 3, 13), image(13, 2)),
    "conv2d": lambda: F.conv2d(image(1, 2, 5, 7), image(3, 2, 2, 3)),
    "avg_pool2d": lambda: F.avg_pool2d(image(1, 1, 6, 14), 2),
    "upsample_bilinear2d": lambda: F.interpolate(
        image(1, 1, 3, 9), scale_factor=2, mode="bilinear"
    ),
    "one_hot": lambda: F.one_hot(rl.tensor([2, 0, 1, 1, 0]), 3),
    "stft": lambda: rl.stft(image(2, 47), 8, window=image(8), return_complex=True),
    "baddbmm": lambda: rl.baddbmm(image(2, 2, 3), image(2, 2, 7), image(2, 7, 3)),
    "_linear_packed": lambda: rl.ops.aten._linear_packed(
        image(3, 5), pack_weight(width_of("float32"), image(7, 5)), image(7), 7
    ),
    "cross_entropy_loss": lambda: F.cross_entropy(image(3, 9), rl.tensor([1, 0, 2])),
}


@pytest.mark.parametrize("name", COMPOSITES)
def test_compositions_have_plans_and_later_calls_agree_with_the_first(name):
    found = planned(name, COMPOSITES[name])
    assert all(rl.equal(later, found[0]) for later in found)


def test_one_tensor_may_be_several_operands():
    x = image(2, 5, 5)
    found = planned("bmm", lambda: rl.bmm(x, x))
    other = x.clone()
    assert rl.equal(found[-1], rl.bmm(x, other))


def test_windows_on_one_memory_are_told_apart_by_their_distance():
    x = image(9, 3)
    for _ in range(3):
        for k in range(1, 5):
            near, far = x[:3], x[k : k + 3]
            assert rl.equal(rl.mm(near, far), rl.mm(near.clone(), far.clone()))


def test_a_look_at_a_truth_value_is_looked_at_again():
    good, bad = rl.tensor([0, 3, 1]), rl.tensor([0, 4, 1])
    for _ in range(4):
        assert F.one_hot(good, 4).argmax(1).tolist() == [0, 3, 1]
        with pytest.raises(RuntimeError, match="smaller than num_classes"):
            F.one_hot(bad, 4)


def test_rows_that_see_nothing_are_zero_however_often_others_saw_something():
    x = image(1, 1, 2, 6)
    seen = rl.ones(2, 2, dtype=rl.bool)
    hidden = rl.tensor([[True, True], [False, False]])
    for _ in range(4):
        assert F.scaled_dot_product_attention(x, x, x, seen)[0, 0, 1].abs().sum() > 0
        alone = F.scaled_dot_product_attention(x, x, x, hidden)
        assert alone[0, 0, 1].tolist() == [0.0] * 6


def test_running_statistics_are_written_once_a_call():
    mean, var = rl.zeros(3), rl.ones(3)
    x = image(4, 3, 5)
    expected = 0.0
    for _ in range(5):
        F.batch_norm(x, mean, var, training=True, momentum=0.5)
        expected = 0.5 * expected + 0.5 * x.mean((0, 2))
        assert rl.allclose(mean, rl.as_tensor(expected))


def test_gradients_pass_through_a_composition_that_has_a_plan():
    x = image(3, 4)
    for _ in range(3):
        F.softmax(x, 1)
    leaf = x.clone().requires_grad_()
    result = F.softmax(leaf, 1)
    assert result.grad_fn is not None
    with rl.no_grad():
        assert not F.softmax(leaf, 1).requires_grad
        assert rl.equal(F.softmax(leaf, 1), result)
    F.softmax(leaf, 1)[0, 0].backward()
    assert leaf.grad.abs().sum() > 0


def test_parameters_take_part_where_nothing_is_recorded():
    layer = rl.nn.LayerNorm(17)
    x = image(3, 17)
    with rl.no_grad():
        found = planned("layer_norm", lambda: layer(x))
    assert rl.equal(found[-1], layer(x))


def test_results_that_are_windows_stay_views():
    x, y = image(4, 6), image(5, 6)
    views = [rl.einsum("ij,kj->ki", x, y)._is_view() for _ in range(4)]
    assert views == views[:1] * 4


def test_modes_and_subclasses_see_what_they_saw_before():
    seen = []

    class Named(rl.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            seen.append(function.__name__)
            return super().__torch_function__(function, types, args, kwargs or {})

    x = image(2, 19)
    for _ in range(3):
        F.softmax(x, 1)
    result = F.softmax(x.as_subclass(Named), 1)
    assert type(result) is Named
    assert seen == ["softmax"]


def test_memory_that_is_filled_by_hand_is_filled_again():
    made = [
        F.interpolate(image(1, 1, 4, 4) + k, (3, 7), mode="bicubic") for k in range(5)
    ]
    for k, result in enumerate(made):
        alone = F.interpolate(image(1, 1, 4, 4) + k, (3, 7), mode="bicubic")
        assert rl.equal(result, alone)


LAYERS = {
    "LSTM": ("lstm.input", "_lstm_sequence"),
    "GRU": ("gru.input", "_gru_sequence"),
    "RNN": ("rnn_tanh.input", "_rnn_sequence"),
}


@pytest.mark.parametrize("steps", [1, 3, 40])
@pytest.mark.parametrize("kind", LAYERS)
def test_recurrent_layers_follow_plans_there_and_back(kind, steps):
    """Also where nobody wants the input's gradient, which is nothing then."""
    layer = getattr(rl.nn, kind)(5, 7, bidirectional=steps == 3)
    x = rl.randn(steps, 2, 5)

    def forward():
        with rl.no_grad():
            return layer(x)

    def step():
        layer.zero_grad()
        layer(x)[0].square().sum().backward()

    composed, sequence = LAYERS[kind]
    for name, call in ((composed, forward), (sequence, step)):
        before = outcomes().get(name, (0, 0))
        back = outcomes().get(f"{sequence}_backward", (0, 0))
        for _ in range(4):
            call()
        assert outcomes()[name][0] > before[0], name
        assert outcomes()[name][1] == before[1], name
    after = outcomes()[f"{sequence}_backward"]
    assert after[0] > back[0] and after[1] == back[1]


def test_dropout_between_planned_layers_is_drawn_anew():
    layer = rl.nn.LSTM(5, 7, num_layers=2, dropout=0.5)
    x = rl.randn(3, 2, 5)
    with rl.no_grad():
        sums = {layer(x)[0].sum().item() for _ in range(6)}
    assert len(sums) == 6


def test_the_sizes_of_a_tensor_are_as_good_as_a_tuple():
    x = image(3, 26)
    found = planned("layer_norm", lambda: F.layer_norm(x, x.shape[1:]))
    assert all(one.equal(F.layer_norm(x, (26,))) for one in found)
