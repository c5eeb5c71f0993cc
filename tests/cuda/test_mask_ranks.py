"""Elements that a mask names, on an imagined card: each finds its place by itself."""

from __future__ import annotations

import pytest

import rushlight as rl


@pytest.mark.parametrize(
    "shape", [(), (0,), (1,), (700,), (9, 40), (3, 0, 2), (4, 5, 6)]
)
@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_masks_name_the_same_elements_as_on_the_host(machine, shape, share):
    rl.manual_seed(0)
    mask = rl.rand(shape) < share
    assert rl.equal(mask.nonzero(), mask.cuda().nonzero().cpu())
    assert mask.cuda().nonzero().stride() == mask.nonzero().stride()
    for dtype in (rl.float32, rl.uint8, rl.complex128):
        x = (rl.randn(shape) * 9).to(dtype)
        chosen = x.cuda().masked_select(mask.cuda()).cpu()
        assert chosen.dtype is dtype and rl.equal(x.masked_select(mask), chosen)
        assert rl.equal(x[mask], x.cuda()[mask.cuda()].cpu())
        source = (rl.randn(mask.numel() + 1) * 9).to(dtype)
        given = mask.cuda(), source.cuda()
        wanted = x.masked_scatter(mask, source)
        assert rl.equal(wanted, x.cuda().masked_scatter(*given).cpu())


def test_a_source_that_is_too_short_is_refused(machine):
    x, mask = rl.zeros(9, device="cuda"), rl.ones(9, dtype=rl.bool, device="cuda")
    with pytest.raises(RuntimeError, match="Number of elements of source < number of"):
        x.masked_scatter(mask, rl.ones(8, device="cuda")).tolist()
