"""Mixed precision on cards: every policy is PyTorch's, and models learn with it."""

from __future__ import annotations

import copy
import threading

import pytest

import rushlight as rl
from rushlight import nn

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _machine(machine, monkeypatch):
    machine.start(cards=1, memory=1 << 28)
    monkeypatch.setenv("RUSHLIGHT_CUDA", "1")


# A call of each operator with a policy: ``h`` is half, ``f`` single, both 4 by 4, ``i``
# has whole numbers, ``m`` is a module, ``F`` its functional one. A row is ``h1``; ``hb``,
# ``hc`` and ``he`` have one, two and three dimensions more.
CALLS = {
    "short": """
        m.conv1d(fb,fb) m.conv2d(fc,hc)
        m.conv_transpose2d(fc,fc) m.conv_tbc(fb,fb,f1)
        m.prelu(f,h1) m.addmm(f,h,f) m.addmv(f1,h,f1) m.addr(f,h1,f1)
        m.matmul(f,f) m.einsum('ij,jk->ik',f,h) m.mm(f,f) m.mv(f,h1) F.linear(f,f,f1)
        m.linalg.vecdot(f,f) m.addbmm(f,hb,fb) m.baddbmm(fb,hb,fb)
        m.bmm(fb,fb) m.linalg.multi_dot([f,h,f])
        m.rnn_tanh_cell(f,f,f,f)
        m.rnn_relu_cell(f,f,f,f)
        F.scaled_dot_product_attention(fb,fb,fb)
    """,
    "long": """
        m.acos(h) m.asin(h) m.cosh(h) m.erfinv(h) m.exp(h) m.expm1(h) m.log(h) m.log10(h)
        m.log1p(h) m.log2(h) m.reciprocal(h) m.rsqrt(h) m.sinh(h) m.tan(h) m.pow(2,h)
        m.pow(h,2) m.square(h) m.pow(h,h) F.softplus(h) F.layer_norm(h,(4,)) F.group_norm(h,2)
        F.rms_norm(h,(4,)) m.native_layer_norm(h,(4,),None,None,1e-5)[0]
        m.cosine_similarity(h,h)
        m.poisson_nll_loss(h,h,True,False,1e-8,1) F.cosine_embedding_loss(h,h,i1)
        F.nll_loss(h,i0) F.hinge_embedding_loss(h,h) F.kl_div(h,h,reduction='sum')
        F.l1_loss(h,h) F.smooth_l1_loss(h,h) F.huber_loss(h,h) F.mse_loss(h,h)
        F.margin_ranking_loss(h,h,h) F.multilabel_margin_loss(h,i*0) F.soft_margin_loss(h,h)
        F.triplet_margin_loss(h,h,h) F.multi_margin_loss(h,i0) m.dist(h,h) m.pdist(h)
        F.binary_cross_entropy_with_logits(h,h) m.cdist(h,h) m.renorm(h,2,0,1.0)
        m.logsumexp(h,0) m.norm(h) m.frobenius_norm(h,0)
        F.interpolate(hb,scale_factor=2) F.interpolate(hc,scale_factor=2)
        F.interpolate(hb,scale_factor=2,mode='linear')
        F.interpolate(hc,scale_factor=2,mode='bilinear')
        F.interpolate(hc,scale_factor=2,mode='bicubic')
        F.interpolate(hc,scale_factor=2,mode='bilinear',antialias=True)
        F.interpolate(he,scale_factor=2,mode='trilinear')
        F.interpolate(hc,scale_factor=2,mode='nearest-exact')
    """,
    "summed": """
        m.prod(h) m.prod(h,0) m.softmax(h,0) m.log_softmax(h,0) m.cumprod(h,0)
        m.cumsum(h,0) m.sum(h) m.sum(h,0) m.linalg.vector_norm(h) m.linalg.matrix_norm(h)
        m.linalg.matrix_norm(h,1) m.norm(h,2,0) m.sum(h,dtype=m.float16) m.sum(i)
        m.cumsum(h,0,dtype=m.float64) m.softmax(h,0,dtype=m.float16) m.norm(h,2,0,dtype=m.float32)
    """,
    "widest": """
        m.addcdiv(h,f,h) m.addcdiv(h,h,h) m.addcmul(f,h,h) m.addcmul(h,h,h) m.atan2(h,f)
        m.atan2(h,h) m.bilinear(h,f,fb) m.cross(h.narrow(1,0,3),f.narrow(1,0,3),1) m.dot(h1,f1)
        m.inner(h,f) m.inner(h,h) m.vdot(f1,h1) m.tensordot(h,f,1) m.scatter_add(h,0,i*0,f)
        m.index_put(h,(i0,),f1)
    """,
    "none": """
        h+f f+f h*2 m.tanh(h) m.sigmoid(h) m.relu(h) m.sqrt(h) m.cat([h,f]) m.stack([h,h])
        m.mean(h) m.amax(h,0) m.where(h>0,h,f) F.gelu(h) F.silu(h) F.dropout(h,0.0)
        m.var(h) m.maximum(h,f) F.avg_pool2d(hb,2) F.max_pool2d(hb,2)
        F.elu(h) m.embedding(h,i*0) F.pad(hb,(1,1),mode='reflect') h.double()@f.double()
        m.exp(h.double()) m.masked_fill(h,h>0,0) m.lerp(f,f,f) F.batch_norm(h,f1,f1)
        m.trace(h) m.trace(f) m.mvlgamma(h+4,1) m.ldexp(h,i) m.matrix_exp(f)
    """,
}


def named(call, m, device):
    """The type of a call's result in a block for cards."""
    h = ((m.arange(16.0, device=device).reshape(4, 4) + 1) / 32).half()
    names = {
        "m": m,
        "F": m.nn.functional,
        "i0": (h > 2).long().narrow(0, 0, 1).squeeze(0),
    }
    for letter, x in (("h", h), ("f", h.float()), ("i", (h > 0).long())):
        names |= {letter: x, letter + "1": x.narrow(0, 0, 1).squeeze(0)}
        for more in "bce":
            names[letter + more] = x = x.unsqueeze(0)
    return str(eval(call, names).dtype).split(".")[-1]


@pytest.mark.parametrize("policy", CALLS)
def test_every_operator_s_result_has_the_type_that_pytorch_gives_on_a_card(policy):
    from torch._subclasses.fake_tensor import FakeTensorMode

    calls, wanted = CALLS[policy].split(), {}
    torch.set_autocast_enabled("cuda", True)
    try:
        with FakeTensorMode():
            for call in calls:
                wanted[call] = named(call, torch, "cuda")
    finally:
        torch.set_autocast_enabled("cuda", False)
        torch.clear_autocast_cache()
    with rl.autocast("cuda"):
        found = {call: named(call, rl, "cuda") for call in calls}
    assert found == wanted


def test_a_block_for_cards_leaves_the_host_alone_and_the_other_way_round():
    here, there = rl.ones(2, 2), rl.ones(2, 2, device="cuda")
    with rl.autocast("cuda"):
        assert (here @ here).dtype is rl.float32
        assert (there @ there).dtype is rl.float16
        with rl.autocast("cpu"):
            assert (here @ here).dtype is rl.bfloat16
            assert (there @ there).dtype is rl.float16
            with rl.autocast("cuda", enabled=False):
                assert (here @ here).dtype is rl.bfloat16
                assert (there @ there).dtype is rl.float32
        assert (here @ here).dtype is rl.float32
        with rl.autocast("cuda", dtype=rl.bfloat16):
            assert (there @ there).dtype is rl.bfloat16
            assert rl.is_autocast_enabled() and not rl.is_autocast_enabled("cpu")
    with rl.autocast("cpu"):
        assert not rl.is_autocast_enabled()
        assert (there @ there).dtype is rl.float32
    assert (here @ here).dtype is rl.float32


def test_other_threads_are_not_in_a_block_for_cards():
    there, found = rl.ones(2, 2, device="cuda"), []
    with rl.autocast("cuda"):
        one = threading.Thread(target=lambda: found.append((there @ there).dtype))
        one.start()
        one.join()
    assert found == [rl.float32]


def test_probabilities_of_a_card_are_not_cast_for_their_cross_entropy():
    x = rl.full((2,), 0.5, device="cuda")
    assert nn.functional.binary_cross_entropy(x, x).item() > 0
    with rl.autocast("cuda"):
        with pytest.raises(RuntimeError, match="unsafe to autocast"):
            nn.functional.binary_cross_entropy(x, x)
        here = nn.functional.binary_cross_entropy(x.cpu(), x.cpu())
        assert here.dtype is rl.float32


def test_a_checkpointed_part_is_computed_again_in_the_same_precision():
    layer = nn.Linear(4, 4).to("cuda")
    seen = []

    def part(x):
        y = layer(x)
        seen.append(y.dtype)
        return y.sin()

    x = rl.ones(2, 4, device="cuda", requires_grad=True)
    with rl.autocast("cuda", dtype=rl.bfloat16):
        y = rl.utils.checkpoint.checkpoint(part, x, use_reentrant=False)
    y.float().sum().backward()
    assert seen == [rl.bfloat16] * 2 and x.grad is not None


def test_a_network_learns_there_in_halves_with_scaled_losses():
    rl.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(6, 12), nn.LayerNorm(12), nn.ReLU(), nn.Linear(12, 3)
    )
    x, y = rl.randn(16, 6), rl.randint(0, 3, (16,))

    def trained(device, dtype):
        here = copy.deepcopy(model).to(device)
        optimizer = rl.optim.AdamW(here.parameters(), 1e-2)
        scaler = rl.amp.GradScaler(device, init_scale=1024.0, enabled=device == "cuda")
        losses = []
        for _ in range(8):
            optimizer.zero_grad()
            with rl.autocast(device, dtype=dtype, enabled=dtype is not rl.float32):
                out = here(x.to(device))
                loss = nn.functional.cross_entropy(out, y.to(device))
            assert out.dtype is dtype and loss.dtype is rl.float32
            scaler.scale(loss).backward()
            assert here[0].weight.grad.dtype is rl.float32
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(here.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        return losses

    wanted = trained("cpu", rl.float32)
    assert wanted[-1] < wanted[0]
    assert trained("cuda", rl.float16) == pytest.approx(wanted, rel=2e-2)
    assert trained("cuda", rl.bfloat16) == pytest.approx(wanted, rel=5e-2)
