"""Behaviours that PyTorch's own tests of export ask for, asked of both libraries."""

import collections
import copy
import io

import pytest

torch = pytest.importorskip("torch")

import rushlight as rl  # noqa: E402


def around(lib, function, attributes=None):
    """A module that calls a function with itself and its arguments."""

    class Program(lib.nn.Module):
        def __init__(self):
            super().__init__()
            for name, value in (attributes or {}).items():
                setattr(self, name, value)

        def forward(self, *args):
            return function(self, *args)

    return Program()


def called(program):
    return [str(n.target) for n in program.graph.nodes if n.op == "call_function"]


def through_file(lib, program):
    file = io.BytesIO()
    lib.export.save(program, file)
    file.seek(0)
    return lib.export.load(file)


def numbers(lib, value):
    return [
        one.tolist() if isinstance(one, lib.Tensor) else one
        for one in lib.utils._pytree.tree_leaves(value)
    ]


def every_way(lib, program, *args):
    """What a program gives as recorded, loaded, taken apart and copied."""
    apart = program.run_decompositions()
    ways = program, through_file(lib, program), apart, through_file(lib, apart)
    return [
        numbers(lib, one.module()(*args)) for one in (*ways, copy.deepcopy(program))
    ]


def unused_constant(lib):
    def function(_, x):
        lib.tensor(3)
        return x * x

    program = lib.export.export(around(lib, function), (lib.ones(3),))
    return called(program), len(program.constants)


def copied_program(lib):
    program = lib.export.export(lib.nn.Linear(3, 2), (lib.ones(4, 3),))
    made = copy.deepcopy(program)
    found = made.module()(lib.ones(4, 3)), program.module()(lib.ones(4, 3))
    return lib.equal(*found)


def names_that_are_no_identifiers(lib):
    module = around(lib, lambda self, x: x + getattr(self, "foo:bar"))
    module.register_parameter("foo:bar", lib.nn.Parameter(lib.ones(3)))
    program = lib.export.export(module, (lib.ones(3),))
    return program.graph_signature.parameters, every_way(lib, program, lib.ones(3))


def dictionary_with_a_default(lib):
    def function(_, x):
        found = collections.defaultdict(list)
        found["k"].append(x + 1)
        return found

    program = lib.export.export(around(lib, function), (lib.ones(3),))
    loaded = through_file(lib, program).module()(lib.ones(3))
    return type(loaded).__name__, every_way(lib, program, lib.ones(3))


def branch_with_a_size(lib):
    def function(_, x):
        size = x.shape[0]
        return lib.cond(x.sum() > 0, lambda x: x.sin() * size, lambda x: x.cos(), (x,))

    program = lib.export.export(
        around(lib, function),
        (lib.ones(4, 3),),
        dynamic_shapes=(({0: lib.export.Dim("n")},),),
    )
    return called(program), [
        [round(one, 5) for one in row[0]]
        for way in every_way(lib, program, lib.ones(6, 3))
        for row in way
    ]


def count_of_the_module(lib):
    def function(self, x):
        self.count += 1
        return x + self.count

    module = around(lib, function, {"count": 0})
    program = lib.export.export(module, (lib.ones(3),))
    return module.count, numbers(lib, program.module()(lib.ones(3)))


def mode_of_gradients(lib):
    def function(_, x):
        with lib.no_grad():
            y = x.sin()
        return y + 1

    x = lib.ones(3, requires_grad=True)
    program = lib.export.export(around(lib, function), (x,))
    return called(program)[:1], called(program.run_decompositions())


def bins_that_follow_from_elements(lib):
    def function(_, sizes):
        first, second = sizes.tolist()
        return lib.bincount(lib.ones(first, dtype=lib.int64), minlength=second)

    program = lib.export.export(around(lib, function), (lib.tensor([20, 10]),))
    return every_way(lib, program, lib.tensor([5, 10]))


def products_of_open_batches(lib):
    def function(_, x):
        heads = x.view(x.shape[0], 5, 2, 4).permute(0, 2, 1, 3)
        return heads @ heads.transpose(-2, -1)

    program = lib.export.export(
        around(lib, function),
        (lib.ones(2, 5, 8),),
        dynamic_shapes=(({0: lib.export.Dim("n")},),),
    )
    apart = through_file(lib, program).run_decompositions()
    return numbers(lib, apart.module()(lib.ones(3, 5, 8)))


def classes_of_a_number(lib):
    one_hot = lib.nn.functional.one_hot
    program = lib.export.export(
        around(lib, lambda _, x: one_hot(x, 3)), (lib.tensor([0, 1]),)
    )
    wanted = "aten._assert_async.msg"
    checks = called(program.run_decompositions()).count(wanted)
    return checks, every_way(lib, program, lib.tensor([2, 0]))


def vector_by_a_matrix(lib):
    program = lib.export.export(
        around(lib, lambda _, x, y: (lib.nn.functional.linear(x, y), x @ y.T)),
        (lib.ones(3), lib.ones(2, 3)),
    )
    return every_way(lib, program, lib.ones(3), lib.ones(2, 3))


def buffers_of_one_memory(lib):
    class Program(lib.nn.Module):
        def __init__(self):
            super().__init__()
            memory = lib.arange(6.0)
            self.register_buffer("head", memory[:3])
            self.register_buffer("tail", memory[2:])
            self.weight = lib.nn.Parameter(lib.arange(6.0).reshape(2, 3).t())

        def forward(self, x):
            self.head.add_(1)
            return x + self.tail[0], self.weight + 1

    loaded = through_file(lib, lib.export.export(Program(), (lib.ones(1),)))
    module = loaded.module()
    found = [numbers(lib, module(lib.ones(1))) for _ in range(2)]
    return found, loaded.state_dict["weight"].stride()


def operator_that_writes(lib):
    @lib.library.custom_op(f"tests_{lib.__name__}::increase", mutates_args={"x"})
    def increase(x: lib.Tensor, by: int) -> None:
        x.add_(by)

    def function(_, x):
        y = x * 2
        increase(y, 3)
        return y + 1

    program = lib.export.export(around(lib, function), (lib.ones(2),))
    return every_way(lib, program, lib.ones(2))


SAME = (
    buffers_of_one_memory, operator_that_writes,
    unused_constant, copied_program, names_that_are_no_identifiers, mode_of_gradients,
    dictionary_with_a_default, branch_with_a_size, count_of_the_module,
    bins_that_follow_from_elements, vector_by_a_matrix, products_of_open_batches,
    classes_of_a_number,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("behaviour", SAME, ids=lambda one: one.__name__)
def test_a_program_does_what_pytorchs_does(behaviour):
    assert behaviour(rl) == behaviour(torch)


def check_that_fails(lib):
    def function(_, x):
        lib._assert_async(x.sum() > -10, "the sum is low")
        return x + 1

    program = lib.export.export(around(lib, function), (lib.ones(3),))
    program.run_decompositions().module()(lib.ones(3) * -9)


def training_of_a_program(lib):
    lib.export.export(lib.nn.Dropout(), (lib.ones(3),)).module().train()


def another_size(lib):
    function = around(lib, lambda _, x: x + 1)
    lib.export.export(function, (lib.ones(5),), dynamic_shapes=(({0: 6},),))


def size_that_the_program_fixes(lib):
    function = around(lib, lambda _, x: x + lib.ones(5))
    sizes = (({0: lib.export.Dim("d")},),)
    lib.export.export(function, (lib.ones(5),), dynamic_shapes=sizes)


def branch_by_an_element(lib):
    lib.export.export(
        around(lib, lambda _, x: x + 1 if x.item() > 3 else x), (lib.tensor(4),)
    )


def another_size_of_an_unflattened_program(lib):
    program = lib.export.export(lib.nn.Linear(3, 2), (lib.ones(4, 3),))
    lib.export.unflatten(program)(lib.ones(7, 3))


REFUSED = (
    another_size_of_an_unflattened_program,
    check_that_fails, training_of_a_program, another_size, size_that_the_program_fixes,
    branch_by_an_element,
)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("behaviour", REFUSED, ids=lambda one: one.__name__)
def test_a_refusal_begins_with_pytorchs_words(behaviour):
    said = []
    for lib in (rl, torch):
        with pytest.raises((RuntimeError, ValueError)) as caught:
            behaviour(lib)
        said.append((type(caught.value).__name__, str(caught.value).split("\n")[:1]))
    assert said[0] == said[1]
