"""An exported program computes in the precision that autocast gave its operators."""

import io

import pytest

import rushlight

BODIES = {
    "linear": lambda t, m, x: m(x),
    "product after a sum": lambda t, m, x: (x + 1) @ (x * 2).mT,
    "convolution": lambda t, m, x: t.nn.functional.conv1d(x, x[..., :2]),
    "attention": lambda t, m, x: t.nn.functional.scaled_dot_product_attention(x, x, x),
    "single precision": lambda t, m, x: m(x).softmax(-1).log(),
    "widest of a list": lambda t, m, x: t.cat([m(x), x], 1),
    "the same weight twice": lambda t, m, x: m(m(x)),
}


def exported(t, body, nested):
    class Model(t.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = t.nn.Linear(4, 4)
            with t.no_grad():
                self.layer.weight.copy_(t.arange(16.0).reshape(4, 4).sin())
                self.layer.bias.zero_()

        def forward(self, x):
            before = body(t, self.layer, x)
            with t.autocast("cpu", dtype=t.bfloat16):
                inside = body(t, self.layer, x)
                with t.autocast("cpu", enabled=not nested):
                    deeper = body(t, self.layer, x)
            return before, inside, deeper

    model, x = Model(), t.arange(24.0).reshape(2, 3, 4).cos()
    return model, x, t.export.export(model, (x,))


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("name", BODIES)
def test_an_exported_program_casts_as_its_blocks_of_autocast_did(name, nested):
    torch = pytest.importorskip("torch")
    model, x, program = exported(rushlight, BODIES[name], nested)
    file = io.BytesIO()
    rushlight.export.save(program, file)
    for found in (program, rushlight.export.load(io.BytesIO(file.getvalue()))):
        for one, other in zip(found.module()(x), model(x), strict=True):
            assert one.dtype is other.dtype and rushlight.equal(one, other)
    wanted = exported(torch, BODIES[name], nested)[2].module()(torch.tensor(x.numpy()))
    types = [str(one.dtype)[6:] for one in wanted]
    assert [str(one.dtype)[10:] for one in program.module()(x)] == types
    again = torch.export.load(io.BytesIO(file.getvalue())).module()
    assert [str(one.dtype)[6:] for one in again(torch.tensor(x.numpy()))] == types
