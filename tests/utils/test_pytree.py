"""`triten.utils._pytree` beside PyTorch's results, and that what is registered there is a node everywhere."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import time
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import triten as tt
from triten.utils import _pytree as pytree

Point = namedtuple("Point", "x y")


class Pair:
    """Two children and a label."""

    def __init__(self, first, second, label="p"):
        self.first, self.second, self.label = first, second, label


@pytest.fixture
def pair():
    pytree.register_pytree_node(
        Pair,
        lambda p: ([p.first, p.second], p.label),
        lambda children, label: Pair(*children, label),
        flatten_with_keys_fn=lambda p: (
            [(pytree.GetAttrKey("first"), p.first), (pytree.GetAttrKey("second"), p.second)],
            p.label,
        ),
    )
    yield Pair
    pytree._deregister_pytree_node(Pair)


PATHS = [
    (3, [("", 3)]),
    (None, [("", None)]),
    ([], []),
    ((1, [2, {"a": 3}]), [("[0]", 1), ("[1][0]", 2), ("[1][1]['a']", 3)]),
    (Point(1, [2]), [(".x", 1), (".y[0]", 2)]),
    (OrderedDict(b=1, a=(2,)), [("['b']", 1), ("['a'][0]", 2)]),
    (defaultdict(list, k=[1]), [("['k'][0]", 1)]),
    (deque([1, 2], maxlen=4), [("[0]", 1), ("[1]", 2)]),
]


@pytest.mark.parametrize(("tree", "expected"), PATHS)
def test_paths_lead_to_leaves(tree, expected):
    found = pytree.tree_leaves_with_path(tree)
    assert [(pytree.keystr(path), leaf) for path, leaf in found] == expected
    assert all(pytree.key_get(tree, path) is leaf for path, leaf in found)
    leaves, spec = pytree.tree_flatten_with_path(tree)
    assert leaves == found and pytree.tree_unflatten([leaf for _, leaf in leaves], spec) == tree


def test_a_deque_keeps_its_greatest_length():
    built = pytree.tree_map(lambda x: x + 1, deque([1, 2], maxlen=4))
    assert built == deque([2, 3]) and built.maxlen == 4


def test_specs_count_and_print_as_pytorchs():
    spec = pytree.tree_structure((1, [2, {"a": 3}]))
    assert (spec.num_leaves, spec.num_nodes, spec.num_children, spec.is_leaf()) == (3, 6, 2, False)
    assert (
        repr(spec)
        == "TreeSpec(tuple, None, [*,\n  TreeSpec(list, None, [*,\n    TreeSpec(dict, ['a'], [*])])])"
    )
    assert pytree.treespec_pprint(spec) == "(*, [*, {'a': *}])"
    assert spec.child(0) == pytree.treespec_leaf() and isinstance(spec.child(0), pytree.LeafSpec)
    assert not isinstance(spec, pytree.LeafSpec) and pytree.LeafSpec() is pytree.treespec_leaf()
    assert pytree.treespec_tuple([pytree.LeafSpec()]) == pytree.tree_structure((1,))
    assert pytree.treespec_dict(a=pytree.LeafSpec()) == pytree.tree_structure({"a": 0})
    assert pytree.tree_is_leaf(spec)
    assert copy.deepcopy(spec) == spec == pickle.loads(pickle.dumps(spec)) and hash(spec) == hash(
        copy.copy(spec)
    )
    with pytest.raises(ValueError, match="Expected a tuple of TreeSpec values"):
        pytree.treespec_tuple([1])


def test_other_trees_may_go_deeper_and_order_keys_otherwise():
    assert pytree.tree_map(lambda x, y: (x, y), {"a": 1, "b": 2}, OrderedDict(b=[3], a=4)) == {
        "a": (1, 4),
        "b": (2, [3]),
    }
    for tree, other, message in [
        ([1, 2], (1, 2), "Node type mismatch; expected <class 'list'>, but got <class 'tuple'>"),
        ([1, 2], 3, "Node type mismatch; expected <class 'list'>, but got None"),
        ([1, 2], [1], "Node arity mismatch; expected 2, but got 1"),
        ({"a": 1}, {"b": 1}, r"Node keys mismatch; missing key\(s\): \['a'\]; extra key\(s\): \['b'\]"),
    ]:
        with pytest.raises(ValueError, match=message):
            pytree.tree_map(lambda x, y: x, tree, other)


def test_leaves_of_some_types_alone():
    values = [1, "a", 2.5]
    assert pytree.tree_map_only(int, lambda x: x + 1, values) == [2, "a", 2.5]
    assert pytree.tree_map_only((int, float), lambda x: x + 1, values) == [2, "a", 3.5]
    assert pytree.tree_map_only(int | str, lambda x: 0, values) == [0, 0, 2.5]
    assert pytree.tree_map_only(lambda x: x == 1, lambda x: 0, values) == [0, "a", 2.5]
    with pytest.raises(TypeError, match="Argument must be a type, a tuple of types, or a callable, got int"):
        pytree.tree_map_only(3, lambda x: 0, values)
    assert pytree.tree_any_only(int, lambda x: x == 1, values)
    assert not pytree.tree_all_only(str, lambda x: x == "b", values)
    assert pytree.tree_all(bool, values) and not pytree.tree_any(lambda x: x is None, values)


def test_map_in_place_gives_the_tree_back():
    tensors = [tt.zeros(2), {"a": tt.zeros(1)}]
    assert pytree.tree_map_(lambda t, n: t.add_(n), tensors, [1, {"a": 2}]) is tensors
    assert tensors[0].tolist() == [1, 1] and tensors[1]["a"].tolist() == [2]
    pytree.tree_map_only_(tt.Tensor, lambda t: t.zero_(), tensors)
    assert tensors[0].tolist() == [0, 0]


def test_leaves_that_stand_for_subtrees():
    spec = pytree.tree_structure([[0, 0], (0, {"a": 0, "b": 0})])
    assert pytree._broadcast_to_and_flatten([1, (2, 3)], spec) == [1, 1, 2, 3, 3]
    assert pytree._broadcast_to_and_flatten([1], pytree.tree_structure((0,))) is None


def test_arguments_and_classes_of_tuples():
    assert pytree.arg_tree_leaves(1, [2], k=(3,)) == [1, 2, 3]
    assert [pytree.is_namedtuple(each) for each in (Point, Point(1, 2), (1,))] == [True, True, False]
    assert [pytree.is_structseq(each) for each in (time.struct_time, time.gmtime(0), (1,))] == [
        True,
        True,
        False,
    ]


def test_a_registered_class_is_a_node_for_transforms_too(pair):
    made = tt.vmap(lambda p: Pair(p.first * 2, p.second.sum(), p.label))(Pair(tt.ones(3), tt.ones(3, 4), "q"))
    assert made.first.tolist() == [2, 2, 2] and made.second.tolist() == [4, 4, 4] and made.label == "q"
    graph = tt.func.make_graph(lambda p: Pair(p.first + p.second, p.first))(Pair(tt.ones(2), tt.ones(2)))
    assert graph(Pair(tt.ones(2), tt.full((2,), 2.0))).first.tolist() == [3, 3]
    assert pytree.keystr(pytree.tree_leaves_with_path([Pair(1, 2)])[1][0]) == "[0].second"
    assert pytree.tree_structure(Pair(1, 2)) != pytree.tree_structure(Pair(1, 2, "other"))
    assert str(pytree.tree_structure(Pair(1, (2,)))) == "Pair(*, (*,))"


def test_what_is_a_node_is_not_registered_again(pair):
    for cls in (Pair, list, deque):
        with pytest.raises(ValueError, match="is already registered as pytree node"):
            pytree.register_pytree_node(cls, list, lambda children, _: children)
    with pytest.raises(ValueError, match="is not registered as pytree node"):
        pytree._deregister_pytree_node(int)


def test_paths_need_keys():
    class Box:
        def __init__(self, child):
            self.child = child

    pytree.register_pytree_node(Box, lambda b: ([b.child], None), lambda children, _: Box(*children))
    assert pytree.tree_leaves(Box([1])) == [1]
    with pytest.raises(ValueError, match="Did not find a flatten_with_keys_fn for type"):
        pytree.tree_leaves_with_path(Box(1))
    pytree._deregister_pytree_node(Box)


def test_dataclasses_and_constants():
    @dataclasses.dataclass
    class Options:
        a: object
        b: object = None

    class Name:
        def __init__(self, name):
            self.name = name

        def __eq__(self, other):
            return self.name == other.name

        def __hash__(self):
            return hash(self.name)

    pytree.register_dataclass(Options)
    pytree.register_constant(Name)
    assert pytree.tree_leaves(Options(1, [2, 3])) == [1, 2, 3]
    assert pytree.tree_map(lambda x: x + 1, Options(1)) == Options(2, None)
    assert pytree.tree_leaves([Name("a"), 2]) == [2]
    assert pytree.tree_structure(Name("a")) != pytree.tree_structure(Name("b"))
    with pytest.raises(TypeError, match="register_constant"):
        pytree.register_constant(object)
    with pytest.raises(ValueError, match=r"expected \['a', 'b'\], got \['a'\]"):
        pytree.register_dataclass(dataclasses.dataclass(type("More", (Options,), {})), field_names=["a"])
    pytree._deregister_pytree_node(Options)
    pytree._deregister_pytree_node(Name)
