"""The operator at which a model loses channels last is named, with module and line."""

import rushlight as rl
from rushlight.inspection import FormatWatch, find_format_losses


def images(*sizes):
    return rl.ones(*sizes).contiguous(memory_format=rl.channels_last)


def test_a_model_that_keeps_the_format_has_no_losses():
    net = rl.nn.Sequential(
        rl.nn.Conv2d(3, 8, 3), rl.nn.BatchNorm2d(8), rl.nn.ReLU(), rl.nn.MaxPool2d(2)
    ).to(memory_format=rl.channels_last)
    x = images(2, 3, 10, 10).requires_grad_()
    assert find_format_losses(lambda: net(x).square().sum().backward()) == []


def test_the_operator_the_module_and_the_line_are_named():
    class Turned(rl.nn.Module):
        def forward(self, x):
            return x.contiguous() + 1

    net = rl.nn.Sequential(rl.nn.ReLU(), Turned())
    (loss,) = find_format_losses(net, images(2, 3, 4, 4))
    assert loss.operator == "aten.clone.default"
    assert loss.module == "Sequential.1"
    assert "x.contiguous() + 1" in loss.source
    assert (loss.given, loss.made, loss.backward) == ((2, 3, 4, 4), (2, 3, 4, 4), False)
    assert "2x3x4x4 row by row" in str(loss)


def test_losses_of_the_backward_pass_and_of_volumes_are_seen():
    x = images(2, 3, 4, 4).requires_grad_()
    with FormatWatch() as watch:
        (x * rl.ones(2, 3, 4, 4)).sum().backward()
        y = x.exp()
        y.register_hook(lambda grad: grad.contiguous())
        y.backward(images(2, 3, 4, 4))
    assert [loss.backward for loss in watch.losses] == [True, True]
    assert [loss.others for loss in watch.losses] == [0, 1]  # what came of the first
    volume = rl.ones(1, 2, 3, 3, 3).contiguous(memory_format=rl.channels_last_3d)
    (loss,) = find_format_losses(lambda: volume.contiguous())
    assert loss.given == (1, 2, 3, 3, 3)


def test_images_whose_format_cannot_be_told_are_left_out():
    assert (
        find_format_losses(lambda: images(2, 1, 4, 4).clone().view(2, 1, 16, 1)) == []
    )
