"""A planned operator gives, the third time and later, what its function gives."""

import os
import subprocess
import sys
import threading

import pytest

import rushlight as rl

# Without the comparison that the other tests run with: what users run.
ALONE = """
import rushlight as rl
{}
"""


def alone(program):
    """What a program prints in a process that only follows plans."""
    chosen = {"RUSHLIGHT_CHECK_PLANS": "0", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", ALONE.format(program)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | chosen,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_later_calls_see_other_elements():
    said = alone(
        "for k in range(5):\n"
        "    x = rl.arange(6).reshape(2, 3) + k\n"
        "    print(x.flip(1)[0, 0].item(), x.triu()[1, 0].item())"
    )
    assert said == ["2", "0", "3", "0", "4", "0", "5", "0", "6", "0"]


def test_results_of_one_plan_share_no_memory():
    said = alone(
        "x = rl.ones(3)\n"
        "made = [x.flip(0) for _ in range(5)]\n"
        "made[3].zero_()\n"
        "print(*[int(m.sum().item()) for m in made])"
    )
    assert said == ["3", "3", "3", "0", "3"]


def test_a_bad_index_is_refused_however_often_it_was_good():
    program = (
        "x, source = rl.zeros(3), rl.ones(1)\n"
        "for k in range(4):\n"
        "    x.scatter(0, rl.tensor([k % 3]), source)\n"
        "for k in range(2):\n"
        "    try:\n"
        "        x.scatter(0, rl.tensor([7]), source)\n"
        "    except RuntimeError as error:\n"
        "        print(str(error).split()[1])\n"
        "print(x.scatter(0, rl.tensor([2]), source).tolist()[2])"
    )
    assert alone(program) == ["7", "7", "1.0"]


def test_operands_that_share_memory_are_looked_at_every_time():
    for _ in range(4):
        x = rl.arange(4.0)
        found = rl.scatter_add(x, 0, rl.tensor([0, 0]), x[2:])
        assert found.tolist() == [5.0, 1.0, 2.0, 3.0]


def test_sizes_strides_types_and_numbers_have_plans_of_their_own():
    for _ in range(3):
        assert rl.arange(3).flip(0).tolist() == [2, 1, 0]
        assert rl.arange(4).flip(0).tolist() == [3, 2, 1, 0]
        assert rl.arange(3.0).flip(0).dtype is rl.float32
        square = rl.arange(4).reshape(2, 2)
        assert square.t().flip(0).tolist() == [[1, 3], [0, 2]]
        assert square.triu(0).tolist() == [[0, 1], [0, 3]]
        assert square.triu(1).tolist() == [[0, 1], [0, 0]]


def test_gradients_flow_through_planned_operators():
    for k in range(1, 5):
        x = rl.ones(2, 2, requires_grad=True)
        (x.flip(0) * rl.tensor([[1.0, 2.0], [3.0, 4.0]]) * k).sum().backward()
        assert x.grad.tolist() == [[3.0 * k, 4.0 * k], [k, 2.0 * k]]


def test_threads_follow_plans_at_once():
    wrong = []

    def work(seed):
        for k in range(200):
            x = rl.arange(12).reshape(3, 4) + seed
            if x.flip(0)[0, 0].item() != 8 + seed or x.roll(1, 1)[0, 0] != 3 + seed:
                wrong.append((seed, k))

    threads = [threading.Thread(target=work, args=(s,)) for s in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("count", [1, 3])
def test_shapes_without_end_leave_memory_flat(count):
    before = rl.cpu.memory_allocated()
    for size in range(1, 600):
        rl.ones(size * count).flip(0)
    after = rl.cpu.memory_allocated()
    assert after - before < 1 << 20


def test_strides_of_one_element_are_kept():
    x = rl.as_strided(rl.arange(9.0), (1, 2, 1), (2, 2, 2))
    strides = [x.sort(1).values.stride() for _ in range(4)]
    assert strides == strides[:1] * 4


def windows(library, first):
    """What operators make of a matrix that begins at an element of its memory."""
    memory = library.arange(40.0)
    x, window = memory[first : first + 9].view(3, 3), ((2, 2), (1, 2), 1)
    filled = memory.clone()[first : first + 9].view(3, 3)
    return [
        library.as_strided_scatter(x, library.full((2, 2), -1.0), *window).tolist(),
        library.as_strided_copy(x, *window).tolist(),
        library.as_strided(x, *window).add(1).tolist(),
        filled.fill_diagonal_(5.0).tolist(),
    ]


def test_what_follows_from_where_operands_begin_is_no_plans():
    torch = pytest.importorskip("torch")
    for first in (0, 0, 0, 1, 1, 3, 0):
        assert windows(rl, first) == windows(torch, first)
