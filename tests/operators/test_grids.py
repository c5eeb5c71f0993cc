"""Images sampled at points of a grid are PyTorch's, and so are their gradients."""

import itertools

import numpy as np
import pytest

import rushlight as rl

torch = pytest.importorskip("torch")

WAYS = [
    way
    for way in itertools.product(
        (2, 3),
        ("bilinear", "nearest", "bicubic"),
        ("zeros", "border", "reflection"),
        (True, False),
    )
    if way[:2] != (3, "bicubic")
]


@pytest.mark.parametrize("space, mode, padding, corners", WAYS)
def test_samples_and_gradients_are_pytorch_s(space, mode, padding, corners):
    torch.manual_seed(0)
    for sizes in ((5, 4, 3)[:space], (1,) * space):
        image = torch.randn(2, 3, *sizes, dtype=torch.float64)
        grid = torch.randn(2, *(3, 4, 2)[:space], space, dtype=torch.float64) * 1.5

        def run(m, image, grid, weight=None):
            image.requires_grad_(), grid.requires_grad_()
            out = m.nn.functional.grid_sample(image, grid, mode, padding, corners)
            (out * out).sum().backward()
            zero = m.zeros_like(grid) if grid.grad is None else grid.grad
            return [x.detach().numpy() for x in (out, image.grad, zero)]

        ours = run(rl, rl.from_numpy(image.numpy()), rl.from_numpy(grid.numpy()))
        for a, b in zip(ours, run(torch, image, grid)):
            torch.testing.assert_close(torch.from_numpy(a), torch.from_numpy(b))


@pytest.mark.parametrize("space, mode, padding, corners", WAYS)
def test_gradients_of_many_channels_and_points_are_pytorch_s(
    space, mode, padding, corners
):
    torch.manual_seed(0)
    image = torch.randn(2, 19, *(7, 6, 3)[:space])
    grid = torch.randn(2, *(9, 17, 2)[:space], space) * 0.7

    def run(m, image, grid):
        image.requires_grad_()
        out = m.nn.functional.grid_sample(image, grid, mode, padding, corners)
        weight = m.arange(out.numel(), dtype=m.float32).reshape(out.shape) / out.numel()
        (plain,) = m.autograd.grad(out, image, weight, retain_graph=True)
        # that which has a gradient of its own is put together from other operators
        (parts,) = m.autograd.grad(out, image, weight, create_graph=True)
        return plain.detach().numpy(), parts.detach().numpy()

    ours = run(rl, rl.from_numpy(image.numpy()), rl.from_numpy(grid.numpy()))
    theirs = run(torch, image, grid)
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("space", [2, 3])
def test_points_that_are_no_numbers_and_far_ones_are_sampled_alike(
    space, padding, mode
):
    if (space, mode) == (3, 2):
        pytest.skip("volumes have no bicubic interpolation")
    nan, inf = float("nan"), float("inf")
    points = [[nan, 0.0], [inf, 0.0], [-inf, 0.0], [0.0, nan], [5.0, 0.0], [nan, nan]]

    def sampled(m):
        image = m.arange(1, 1 + 3 * 4 * (space - 1), dtype=m.float32)
        grid = m.tensor([p + [0.0] * (space - 2) for p in points])
        sizes = (1, 1, *([2] if space == 3 else []), 3, 4)
        sample = getattr(m, f"grid_sampler_{space}d")
        shape = (1, *[1] * (space - 1), 6, space)
        return sample(image.reshape(sizes), grid.reshape(shape), mode, padding, False)

    ours, theirs = sampled(rl).flatten().tolist(), sampled(torch).flatten().tolist()
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("space", [2, 3])
def test_samples_are_row_major_whatever_their_grid_is(space):
    image = rl.randn(2, 3, *[4] * space)
    grid = rl.rand(2, *[5, 6, 7][:space], space).transpose(1, 2)
    for mode in (0, 1):
        sample = getattr(rl, f"grid_sampler_{space}d")
        assert sample(image, grid, mode, 0, False).is_contiguous()


@pytest.mark.parametrize("space", [2, 3])
@pytest.mark.parametrize("batch, channels, points", [(1, 0, 2), (0, 1, 2), (1, 2, 0)])
def test_images_without_elements_have_gradients(batch, channels, points, space):
    image = rl.ones(batch, channels, *[3] * space, requires_grad=True)
    grid = rl.zeros(batch, points, *[2] * (space - 1), space, requires_grad=True)
    sample = getattr(rl, f"grid_sampler_{space}d")
    sample(image, grid, 0, 0, False).sum().backward()
    assert image.grad.shape == image.shape and grid.grad.shape == grid.shape


def test_samples_have_second_gradients():
    image = rl.randn(1, 2, 4, 3, dtype=rl.float64, requires_grad=True)
    grid = (rl.rand(1, 3, 3, 2, dtype=rl.float64) * 1.6 - 0.8).requires_grad_()

    def sample(image, grid):
        return rl.grid_sampler_2d(image, grid, 0, 0, False)

    assert rl.autograd.gradcheck(sample, (image, grid))
    assert rl.autograd.gradgradcheck(sample, (image, grid))


@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 2, 4, 5), (2, 1, 1, 3)])
@pytest.mark.parametrize("corners", [True, False])
@pytest.mark.filterwarnings("ignore:Since version 1.3.0")
def test_grids_of_affine_maps_are_pytorch_s(size, corners):
    theta = torch.randn(2, len(size) - 2, len(size) - 1)
    theirs = torch.nn.functional.affine_grid(theta, size, corners)
    ours = rl.nn.functional.affine_grid(rl.from_numpy(theta.numpy()), size, corners)
    torch.testing.assert_close(torch.from_numpy(ours.numpy()), theirs)


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.nn.functional.grid_sample(m.ones(1, 1, 2, 2), m.zeros(1, 2, 2, 3)),
        lambda m: m.nn.functional.grid_sample(m.ones(1, 1, 2, 2), m.zeros(2, 2, 2, 2)),
        lambda m: m.nn.functional.grid_sample(m.ones(1, 1, 2, 2), m.zeros(1, 2, 2)),
        lambda m: m.nn.functional.grid_sample(
            m.ones(1, 1, 2, 2), m.zeros(1, 2, 2, 2), "cubic"
        ),
        lambda m: m.nn.functional.grid_sample(m.ones(1, 1, 0, 2), m.zeros(1, 2, 2, 2)),
        lambda m: m.nn.functional.grid_sample(
            m.ones(1, 1, 2, 2), m.zeros(1, 2, 2, 2, dtype=m.float64)
        ),
        lambda m: m.nn.functional.affine_grid(m.ones(1, 2, 3), (1, 1, 2, 2, 2)),
        lambda m: m.nn.functional.affine_grid(m.ones(1, 2, 3), (1, 1)),
        lambda m: m.nn.functional.affine_grid(m.ones(1, 2, 3), (1, 1, 0, 2)),
    ],
)
@pytest.mark.filterwarnings("ignore:Default grid_sample")
def test_what_does_not_fit_is_refused_in_pytorch_s_words(call):
    with pytest.raises(Exception) as theirs:
        call(torch)
    with pytest.raises(theirs.type) as ours:
        call(rl)
    assert str(ours.value).replace("rushlight.", "torch.") == str(theirs.value)


@pytest.mark.parametrize("steps", [7, 28, 30])
def test_the_places_of_an_affine_grid_are_multiplied_before_they_are_divided(steps):
    same = rl.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    grid = rl.nn.functional.affine_grid(same, (1, 1, steps, steps), align_corners=False)
    axis = rl.linspace(-1, 1, steps) * (steps - 1) / steps
    assert rl.equal(grid[0, 0, :, 0], axis) and rl.equal(grid[0, :, 0, 1], axis)


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("far", [1e6, 1e9, 1e30])
def test_points_far_out_are_thrown_back_as_pytorch_throws_them(mode, recorded, far):
    torch = pytest.importorskip("torch")
    places = [0.37, -0.61, 0.983, -0.142, 0.55, -0.271, 0.118, 0.909]
    found = []
    for library in (torch, rl):
        image = library.arange(21.0, dtype=library.float64).square().reshape(1, 1, 3, 7)
        grid = library.tensor(places, dtype=library.float64).reshape(1, 1, 4, 2) * far
        sampled = library.nn.functional.grid_sample(
            image.requires_grad_(recorded), grid, mode, "reflection", False
        )
        found.append(sampled.detach().reshape(-1).tolist())
    assert found[1] == pytest.approx(found[0], rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("space", [2, 3])
def test_slopes_of_points_are_pytorch_s_at_every_edge_of_a_block(
    space, padding, corners, kind
):
    generator = np.random.default_rng([space, corners])
    for channels, points in ((1, 1), (3, 63), (2, 64), (4, 65), (2, 130)):
        image = generator.standard_normal((2, channels, *(5, 7, 3)[:space])).astype(
            kind
        )
        grid = generator.random((2, points, *(3, 1)[: space - 1], space)) * 3 - 1.5
        flat = grid.reshape(-1)
        flat[::17], flat[5::23], flat[7::29] = 1, -1, 0
        slopes = []
        for m in (rl, torch):
            x, at = (m.tensor(t.astype(kind)).requires_grad_() for t in (image, grid))
            out = m.nn.functional.grid_sample(x, at, "bilinear", padding, corners)
            along = m.tensor(np.cos(np.arange(out.numel())).astype(kind))
            found = m.autograd.grad(out, (x, at), along.reshape(out.shape))
            slopes.append([t.numpy() for t in found])
        close = 1e-5 if kind == "float32" else 1e-12
        for ours, theirs in zip(*slopes, strict=True):
            most = max(1.0, abs(theirs).max())
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=close * most)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_infinities_of_images_and_grids_reach_the_gradients_that_they_reach_on_pytorch(
    mode, padding, corners
):
    generator = np.random.default_rng(7)
    for trial in range(6):
        image = generator.standard_normal((1, 2, 6, 7)).astype("float32")
        grid = (generator.random((1, 4, 5, 2)) * 3 - 1.5).astype("float32")
        image.reshape(-1)[:: 11 + trial] = np.inf
        image.reshape(-1)[3 :: 17 + trial] = -np.inf
        if trial % 2 and mode == "bicubic":
            grid.reshape(-1)[5::13] = [np.inf, -np.inf, np.nan, 1e30][trial % 4]
        slopes = []
        for m in (rl, torch):
            x, at = (m.tensor(t).requires_grad_() for t in (image, grid))
            out = m.nn.functional.grid_sample(x, at, mode, padding, corners)
            along = m.tensor(np.cos(np.arange(40, dtype="float32")))
            found = m.autograd.grad(out, (x, at), along.reshape(out.shape))
            slopes.append([t.numpy() for t in found])
        for ours, theirs in zip(*slopes, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-4)


def test_points_outside_give_an_image_nothing_however_large_their_gradient_is():
    for mode in ("bilinear", "nearest", "bicubic"):
        slopes = []
        for m in (rl, torch):
            image = m.ones(1, 1, 3, 3, requires_grad=True)
            grid = m.tensor([[[[9.0, 9.0], [0.5, 0.5]]]])
            out = m.nn.functional.grid_sample(image, grid, mode, align_corners=True)
            out.backward(m.tensor([[[[float("inf"), 1.0]]]]))
            slopes.append(image.grad.numpy())
        np.testing.assert_allclose(*slopes, rtol=1e-5, atol=1e-6)
