"""Steps call the overloads that PyTorch's programs call: those of numbers for numbers."""

import functools

import numpy as np
import pytest
import torch

import rushlight as rl
from rushlight.dispatch.declared import CONDITIONS, NUMBER
from rushlight.dispatch.dispatcher import packets
from rushlight.fx.experimental.proxy_tensor import make_fx
from tests.export.steps import LEFT_OUT

_TENSOR, _TENSOR_OR_NUMBER = 0, 4


@functools.cache
def named():
    """The functions that have further names for numbers, and where those may stand."""
    found = {}
    for (namespace, name), packet in packets().items():
        for op in packet.overloads if namespace == "aten" else ():
            rows = [
                {at for what, at in row[CONDITIONS] if what == NUMBER}
                for row in op.names
            ]
            if (
                not name.endswith("_")
                and any(rows)
                and callable(getattr(torch, name, None))
            ):
                found[name] = op, [row for row in rows if row]
    return found


def calls(op, rows):
    """A call for each name: what has to be a number is 2, what may be a tensor is one."""
    for numbers in rows:
        yield [
            2 if at in numbers else "tensor"
            for at, row in enumerate(op.signature.rows)
            if row[1] in (_TENSOR, _TENSOR_OR_NUMBER) and row[2] is ...
        ]


def program(lib, name, pattern, values):
    """A module that makes the call, and what it is called with."""

    class Call(lib.nn.Module):
        def forward(self, x):
            args = [x if one == "tensor" else one for one in pattern]
            return getattr(lib, name)(*args)

    return Call(), (lib.from_numpy(values.copy()),)


def exported(lib, module, args):
    return lib.export.export(module, args).graph


def recorded(lib, module, args):
    trace = make_fx if lib is rl else torch.fx.experimental.proxy_tensor.make_fx
    return trace(module)(*args).graph


def targets(graph):
    steps = [str(node.target) for node in graph.nodes if node.op == "call_function"]
    return [one for one in steps if not one.endswith(LEFT_OUT)]


@pytest.mark.parametrize("way", [exported, recorded], ids=lambda one: one.__name__)
def test_every_operator_with_names_for_numbers_shows_them(way):
    compared = 0
    for name, (op, rows) in named().items():
        for pattern in calls(op, rows):
            for dtype in (np.float32, np.int64):
                values = np.arange(1, 4).astype(dtype)
                try:
                    theirs = targets(way(torch, *program(torch, name, pattern, values)))
                except Exception:
                    continue  # not of this type, or not of numbers
                ours = targets(way(rl, *program(rl, name, pattern, values)))
                assert ours == theirs, (name, pattern)
                compared += 1
    assert compared >= 50


def test_dimensions_alone_and_lists_of_them_have_names_of_their_own():
    class Truths(rl.nn.Module):
        def forward(self, x):
            return x.all(0), x.all((0, 1)), x.any(), x.any(1, True), x.squeeze(0)

    graph = exported(rl, Truths(), (rl.ones(1, 3),))
    names = "all.dim all.dims any.default any.dim squeeze.dim"
    assert targets(graph) == [f"aten.{one}" for one in names.split()]
    assert [isinstance(node.args[1], int) for node in graph.nodes if "dim" in str(node.target)] == [
        True, False, True, True
    ]  # fmt: skip


def test_files_keep_the_names(tmp_path):
    class Compare(rl.nn.Module):
        def forward(self, x):
            return x[x > 0.5], (x % 2).eq(1), 1 - x, x.masked_fill(x < 0, 3)

    x = rl.randn(7)
    program = rl.export.export(Compare(), (x,))
    for one in program, program.run_decompositions():
        rl.export.save(one, tmp_path / "p.pt2")
        again = rl.export.load(tmp_path / "p.pt2")
        assert targets(again.graph) == targets(one.graph)
        for got, want in zip(again.module()(x), Compare()(x), strict=True):
            assert rl.equal(got, want)


def test_overloads_of_whole_programs_leave_nothing_out(tmp_path):
    def resized(lib):
        class Resized(lib.nn.Module):
            def forward(self, x):
                resize = lib.nn.functional.interpolate
                return (
                    resize(x, size=(7, 5)),
                    resize(x, scale_factor=2.0, mode="bilinear"),
                    resize(x, size=(3, 3), mode="bicubic", antialias=True),
                )

        return Resized()

    x = rl.arange(2 * 36.0).reshape(1, 2, 6, 6)
    program = rl.export.export(resized(rl), (x,))
    theirs = torch.export.export(resized(torch), (torch.from_numpy(x.numpy()),))
    shown, expected = (
        [str((node.target, node.args[1:])) for node in one.graph.nodes if node.args]
        for one in (program, theirs)
    )
    assert shown[:-1] == expected[:-1]
    for one in program, program.run_decompositions():
        rl.export.save(one, tmp_path / "p.pt2")
        again = torch.export.load(tmp_path / "p.pt2").module()
        for got, want in zip(
            again(torch.from_numpy(x.numpy())), resized(rl)(x), strict=True
        ):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-4)
