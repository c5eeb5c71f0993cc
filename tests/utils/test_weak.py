"""References that go with the objects, by identity; beside PyTorch where it is there."""

import copy

import pytest

import rushlight as rl
from rushlight.utils import weak


@pytest.fixture(params=["rushlight", "torch"])
def side(request):
    module = pytest.importorskip(request.param)
    if request.param == "torch":
        return module, pytest.importorskip("torch.utils.weak")
    return module, weak


def test_keys_are_compared_by_identity_and_forgotten_with_their_objects(side):
    lib, weak = side
    a, b = lib.ones(2), lib.ones(2)
    notes = weak.WeakIdKeyDictionary({a: 1})
    notes[b] = 2
    assert (notes[a], notes[b], len(notes), a in notes) == (1, 2, 2, True)
    assert [key is a or key is b for key in notes] == [True, True]
    del b
    assert (len(notes), list(notes.values())) == (1, [1])
    assert notes.get(lib.ones(2)) is None
    with pytest.raises(KeyError):
        notes[lib.ones(2)]
    assert notes.pop(a) == 1 and not notes


def test_dictionaries_are_joined_copied_and_compared(side):
    lib, weak = side
    a, b = lib.ones(2), lib.zeros(2)
    one = weak.WeakIdKeyDictionary({a: [1]})
    both = one | {b: [2]}
    assert len(both) == 2 and len(one) == 1
    assert one.copy() == one and one != both
    deep = copy.deepcopy(both)
    assert deep == both and deep[a] is not both[a]
    one |= both
    assert one[b] is both[b]
    assert one.setdefault(a, 3) == [1] and len(one.keyrefs()) == 2


def test_references_to_one_tensor_are_equal(side):
    lib, weak = side
    x = lib.ones(2)
    one = weak.TensorWeakRef(x)
    assert one() is x
    assert weak.WeakIdRef(x) == weak.WeakIdRef(x)
    del x
    assert one() is None
    assert weak.WeakTensorKeyDictionary() == {}


def test_what_is_no_tensor_has_no_tensor_reference():
    with pytest.raises(AssertionError):
        weak.TensorWeakRef(3)
    assert 3 not in weak.WeakIdKeyDictionary({rl.ones(1): 0})
