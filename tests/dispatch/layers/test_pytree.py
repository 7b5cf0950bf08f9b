"""Trees of containers come apart into leaves and together again."""

from collections import OrderedDict, defaultdict, namedtuple

import pytest

import triten as tt
from triten.dispatch.layers.pytree import tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten

Point = namedtuple("Point", "x y")

TREES = [
    (3, [3]),
    (None, [None]),
    ((), []),
    ([], []),
    ({}, []),
    ((1, [2, (3,)], {"a": 4}), [1, 2, 3, 4]),
    (Point(1, [2]), [1, 2]),
    (OrderedDict([("b", 1), ("a", 2)]), [1, 2]),
    ({"b": 1, "a": {"c": 2}}, [1, 2]),
    ("text", ["text"]),
    (tt.Size((2, 3)), [tt.Size((2, 3))]),
    ({1, 2}, [{1, 2}]),
]


@pytest.mark.parametrize(("tree", "leaves"), TREES)
def test_flatten_and_unflatten_are_inverses(tree, leaves):
    found, spec = tree_flatten(tree)
    assert found == leaves and spec.num_leaves == len(leaves)
    built = tree_unflatten(found, spec)
    assert built == tree and type(built) is type(tree)
    assert tree_leaves(tree) == leaves and tree_structure(tree) == spec


def test_a_defaultdict_keeps_its_factory():
    tree = defaultdict(list, a=1)
    leaves, spec = tree_flatten(tree)
    built = tree_unflatten(leaves, spec)
    assert built == tree and built.default_factory is list


def test_structures_compare_and_print():
    assert tree_structure((1, {"a": 2})) == tree_structure((5, {"a": None}))
    assert tree_structure((1, 2)) != tree_structure([1, 2])
    assert tree_structure({"a": 1}) != tree_structure({"b": 1})
    assert repr(tree_structure((1, [2, 3], {"a": 3}))) == (
        "TreeSpec(tuple, None, [*,\n  TreeSpec(list, None, [*,\n    *]),\n  TreeSpec(dict, ['a'], [*])])"
    )


def test_map_takes_several_trees_of_one_structure():
    assert tree_map(lambda a, b: a * b, (1, [2]), (3, [4])) == (3, [8])
    with pytest.raises(
        ValueError, match="Node type mismatch; expected <class 'tuple'>, but got <class 'list'>"
    ):
        tree_map(lambda a, b: a, (1, 2), [1, 2])


def test_is_leaf_keeps_containers_whole():
    assert tree_leaves([(1, 2), 3], is_leaf=lambda t: isinstance(t, tuple)) == [(1, 2), 3]
    assert tree_map(len, [(1, 2), (3,)], is_leaf=lambda t: isinstance(t, tuple)) == [2, 1]


def test_wrong_numbers_of_leaves_and_specs_are_refused():
    with pytest.raises(
        ValueError, match="`leaves` has length 1 but the spec refers to a pytree that holds 2"
    ):
        tree_unflatten([1], tree_structure((1, 2)))
    with pytest.raises(
        TypeError,
        match="instance of PyTreeSpec but got item of type <class 'tuple'>",
    ):
        tree_unflatten([1], (1,))


def test_trees_agree_with_pytorch():
    pytree = pytest.importorskip("torch.utils._pytree")
    for tree, leaves in TREES[:-2]:
        assert pytree.tree_flatten(tree)[0] == leaves
