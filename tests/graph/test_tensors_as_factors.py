"""A tensor as the factor of a sum stays a tensor in a program: no number of it is kept."""

import pytest

import rushlight as rl

CALLS = {
    "add_": lambda p, q, a: p.add_(q, alpha=-a),
    "add": lambda p, q, a: rl.add(p, q, alpha=a),
    "add of a keyword": lambda p, q, a: rl.add(p, other=q, alpha=a),
    "sub": lambda p, q, a: p.sub(q, alpha=a),
    "subtract": lambda p, q, a: rl.subtract(p, q, alpha=a),
    "addcmul_": lambda p, q, a: p.addcmul_(q, q, value=a),
    "addcdiv": lambda p, q, a: rl.addcdiv(p, q, q + 1, value=a),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_whole_graph_takes_the_factor_of_each_call(name):
    call = CALLS[name]
    compiled = rl.compile(lambda p, q, a: call(p, q, a) * 1, fullgraph=True)
    for number in (0.5, -2.0, 3.25):
        given = rl.ones(3), rl.arange(3.0), rl.tensor(number)
        wanted = call(*(one.clone() for one in given))
        assert rl.allclose(compiled(*given), wanted)
