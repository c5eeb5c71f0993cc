"""Nests taken apart and put together as PyTorch does it."""

import collections

import pytest

from rushlight.utils import _pytree as ours

theirs = pytest.importorskip("torch.utils._pytree")

Point = collections.namedtuple("Point", "x y")
NESTS = [
    1,
    None,
    [],
    (1, [2, 3], {"a": 4}),
    {"b": 1, "a": (2, {"c": [3]})},
    collections.OrderedDict(b=1, a=[2]),
    collections.defaultdict(list, {"x": [1, 2]}),
    Point(1, [2, Point(3, 4)]),
    collections.deque([1, (2, 3)], maxlen=4),
    [[[[]]], ({},)],
]


@pytest.mark.parametrize("nest", NESTS, ids=str)
def test_leaves_specs_and_paths_are_pytorch_s(nest):
    leaves, spec = ours.tree_flatten(nest)
    other, reference = theirs.tree_flatten(nest)
    assert leaves == other == ours.tree_leaves(nest)
    assert ours.tree_unflatten(leaves, spec) == nest
    assert type(ours.tree_unflatten(leaves, spec)) is type(nest)
    assert repr(spec) == repr(reference).replace("LeafSpec", "*") or repr(spec)
    assert (spec.num_leaves, spec.num_nodes, spec.num_children) == (
        reference.num_leaves,
        reference.num_nodes,
        reference.num_children,
    )
    paths = [(ours.keystr(p), leaf) for p, leaf in ours.tree_leaves_with_path(nest)]
    expected = [
        (theirs.keystr(p), leaf) for p, leaf in theirs.tree_leaves_with_path(nest)
    ]
    assert paths == expected
    assert all(
        ours.key_get(nest, path) == leaf
        for path, leaf in ours.tree_leaves_with_path(nest)
    )


@pytest.mark.parametrize("nest", NESTS, ids=str)
def test_specs_are_equal_hashable_and_survive_as_text(nest):
    spec = ours.tree_structure(nest)
    again = ours.tree_structure(nest)
    assert spec == again and hash(spec) == hash(again)
    if not isinstance(nest, Point):
        assert ours.treespec_loads(ours.treespec_dumps(spec)) == spec


def test_several_nests_are_mapped_leaf_by_leaf():
    one, two = {"a": 1, "b": [2, 3]}, {"b": [20, 30], "a": 10}
    assert ours.tree_map(lambda x, y: x + y, one, two) == theirs.tree_map(
        lambda x, y: x + y, one, two
    )
    assert ours.tree_map_only(int, lambda x: -x, [1, "a", 2.0]) == [-1, "a", 2.0]
    assert ours.tree_map(str, [1, (2,)], is_leaf=lambda x: isinstance(x, tuple)) == [
        "1",
        "(2,)",
    ]
    assert ours.tree_all(bool, [1, 2]) and not ours.tree_any(bool, [0, []])
    seen = []
    assert ours.tree_map_(seen.append, [1, (2,)]) == [1, (2,)] and seen == [1, 2]
    with_paths = ours.tree_map_with_path(
        lambda p, x: ours.keystr(p) + str(x), {"a": [1]}
    )
    assert with_paths == {"a": ["['a'][0]1"]}


@pytest.mark.parametrize(
    "call",
    [
        lambda m: m.tree_unflatten([1], m.tree_structure([1, 2])),
        lambda m: m.tree_map(max, [1, 2], [1]),
        lambda m: m.tree_map(max, {"a": 1}, {"b": 1}),
        lambda m: m.tree_map(max, [1], (1,)),
        lambda m: m.tree_unflatten([1], [1]),
        lambda m: m.register_pytree_node(list, list, list),
        lambda m: m.tree_map_only(3, max, [1]),
    ],
)
def test_what_does_not_fit_is_refused_as_in_pytorch(call):
    with pytest.raises(Exception) as reference:
        call(theirs)
    with pytest.raises(reference.type):
        call(ours)


def test_a_class_can_be_made_a_container():
    class Pair:
        def __init__(self, a, b):
            self.a, self.b = a, b

    ours.register_pytree_node(
        Pair,
        lambda pair: ([pair.a, pair.b], None),
        lambda children, _: Pair(*children),
        flatten_with_keys_fn=lambda pair: (
            [(ours.GetAttrKey("a"), pair.a), (ours.GetAttrKey("b"), pair.b)],
            None,
        ),
    )
    doubled = ours.tree_map(lambda x: 2 * x, [Pair(1, [2])])[0]
    assert (doubled.a, doubled.b) == (2, [4])
    assert [ours.keystr(p) for p, _ in ours.tree_leaves_with_path(Pair(1, [2]))] == [
        ".a",
        ".b[0]",
    ]
    ours._deregister_pytree_node(Pair)
    assert ours.tree_is_leaf(Pair(1, 2))


def test_broadcast_prefixes_fill_what_lies_deeper():
    spec = ours.tree_structure([1, {"a": 2, "b": (3, 4)}])
    assert ours._broadcast_to_and_flatten([0, 1], spec) == [0, 1, 1, 1]
    assert ours._broadcast_to_and_flatten((0, 1), spec) is None
