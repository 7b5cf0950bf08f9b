"""`tt.utils._pytree`: classes of programs as nodes, maps over some leaves, paths, specs as text; PyTorch's results."""

import copy
import dataclasses
import enum
import pickle
from collections import OrderedDict, defaultdict, deque, namedtuple

import pytest

import triten as tt
from triten.utils import _pytree as pytree

Point = namedtuple("Point", "x y")


class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b


@pytest.fixture
def pair():
    pytree.register_pytree_node(
        Pair,
        lambda pair: ([pair.a, pair.b], {"of": "test"}),
        lambda children, _: Pair(*children),
        serialized_type_name="test.Pair",
        flatten_with_keys_fn=lambda pair: (
            [(pytree.GetAttrKey("a"), pair.a), (pytree.GetAttrKey("b"), pair.b)],
            None,
        ),
    )
    yield Pair
    pytree._deregister_pytree_node(Pair)


def test_a_registered_class_is_a_node_for_vmap_and_func(pair):
    x = Pair(tt.arange(3.0), tt.ones(3))
    out = tt.vmap(lambda p: Pair(p.a + p.b, p.a))(x)
    assert isinstance(out, Pair) and out.a.tolist() == [1, 2, 3] and out.b.tolist() == [0, 1, 2]
    grads = tt.func.grad(lambda p: (p.a * p.b).sum())(x)
    assert grads.a.tolist() == [1, 1, 1] and grads.b.tolist() == [0, 1, 2]


def test_a_class_is_registered_once_and_its_subclasses_are_leaves(pair):
    class Other(Pair):
        pass

    with pytest.raises(ValueError, match="is already registered as pytree node"):
        pytree.register_pytree_node(Pair, lambda p: ([], None), lambda c, _: Pair(1, 2))
    assert pytree.tree_is_leaf(Other(1, 2)) and not pytree.tree_is_leaf(Pair(1, 2))
    with pytest.raises(ValueError, match="must be None or registered"):
        pytree.register_pytree_node(Other, None, None, to_dumpable_context=str)
    assert pytree.tree_is_leaf(Other(1, 2))


@pytest.mark.parametrize(
    "tree",
    [
        3,
        (),
        (1, [2, (3,)], {"a": 4}),
        Point(1, [2]),
        OrderedDict(b=1, a=2),
        defaultdict(list, a=1),
        deque([1, 2], maxlen=5),
        tt.max(tt.ones(2, 2), 0),
    ],
)
def test_specs_are_copied_pickled_and_hashed(tree):
    leaves, spec = pytree.tree_flatten(tree)
    for other in (copy.deepcopy(spec), pickle.loads(pickle.dumps(spec))):
        assert other == spec and hash(other) == hash(spec) and other.num_nodes == spec.num_nodes
    built = spec.unflatten(leaves)
    assert type(built) is type(tree) and all(
        a is b for a, b in zip(pytree.tree_leaves(built), leaves, strict=True)
    )
    assert list(pytree.tree_iter(tree)) == pytree.tree_leaves(tree) or isinstance(leaves[0], tt.Tensor)


def test_a_tree_may_go_on_where_the_first_has_leaves():
    assert pytree.tree_map(lambda x, y: [x, *y], [5, 6], [[7, 9], [1, 2]]) == [[5, 7, 9], [6, 1, 2]]
    assert pytree.tree_map(lambda x, y: x + y, {"a": 1, "b": 2}, OrderedDict(b=10, a=20)) == {
        "a": 21,
        "b": 12,
    }
    assert pytree.tree_map(lambda x, y: x + y, deque([1]), deque([2], maxlen=3)) == deque([3])


@pytest.mark.parametrize(
    ("tree", "other", "message"),
    [
        ([5, 6], (1, 2), "Node type mismatch; expected <class 'list'>, but got <class 'tuple'>."),
        ([5, 6], [1], "Node arity mismatch; expected 2, but got 1."),
        ({"a": 1}, {"b": 1}, "Node keys mismatch; missing key(s): {'a'}; extra key(s): {'b'}."),
        ([], 1, "Node type mismatch; expected <class 'list'>, but got <class 'int'>."),
    ],
)
def test_trees_that_differ_are_refused(tree, other, message):
    with pytest.raises(ValueError) as raised:
        pytree.tree_map(lambda x, y: 0, tree, other)
    assert str(raised.value) == message


def test_maps_over_some_leaves():
    assert pytree.tree_map_only(int, lambda v: v + 1, [1, 2.0, "a"]) == [2, 2.0, "a"]
    assert pytree.tree_map_only(lambda v: v == 2.0, lambda v: v + 1, [1, 2.0, "a"]) == [1, 3.0, "a"]
    with pytest.raises(TypeError, match="Argument must be a type"):
        pytree.tree_map_only(3, len, [])
    assert not pytree.tree_all(bool, [1, [0]]) and pytree.tree_any(bool, [1, [0]])
    assert pytree.tree_all_only(int, bool, [1, ""]) and not pytree.tree_any_only(int, bool, [0, "a"])
    tree = {"a": tt.ones(2)}
    assert pytree.tree_map_(lambda t: t.add_(1), tree) is tree and tree["a"].tolist() == [2, 2]


def test_paths(pair):
    tree = {"a": [1, Point(2, 3)], "p": Pair(4, 5)}
    found, spec = pytree.tree_flatten_with_path(tree)
    assert [pytree.keystr(path) for path, _ in found] == [
        "['a'][0]",
        "['a'][1].x",
        "['a'][1].y",
        "['p'].a",
        "['p'].b",
    ]
    assert [pytree.key_get(tree, path) for path, _ in found] == [1, 2, 3, 4, 5]
    assert spec == pytree.tree_structure(tree)
    mapped = pytree.tree_map_with_path(lambda path, x, y: (len(path), x + y), [1, [2]], [10, [20]])
    assert mapped == [(1, 11), [(2, 22)]]


def test_a_class_without_keys_has_no_paths():
    class Box:
        pass

    pytree.register_pytree_node(Box, lambda box: ([1], None), lambda children, _: Box())
    with pytest.raises(ValueError, match="Did not find a flatten_with_keys_fn"):
        pytree.tree_leaves_with_path([Box()])
    pytree._deregister_pytree_node(Box)


@dataclasses.dataclass
class Sample:
    x: int
    y: int | None = None
    z: int = dataclasses.field(default=3, init=False)


def test_dataclasses_and_constants():
    with pytest.raises(ValueError, match=r"Missing fields in `field_names`: \{'y'\}"):
        pytree.register_dataclass(Sample, field_names=["x"])
    pytree.register_dataclass(Sample)
    assert pytree.tree_map(lambda v: v + 1, [Sample(1), Sample(1, 2)]) == [Sample(2), Sample(2, 3)]
    pytree._deregister_pytree_node(Sample)

    @dataclasses.dataclass(frozen=True)
    class Config:
        name: str

    pytree.register_constant(Config)
    leaves, spec = pytree.tree_flatten([Config("a"), 1])
    assert leaves == [1] and spec.unflatten([2]) == [Config("a"), 2]
    assert spec != pytree.tree_structure([Config("b"), 1])
    pytree._deregister_pytree_node(Config)
    with pytest.raises(TypeError, match="non-default `__eq__`"):
        pytree.register_constant(Pair)


class Color(enum.Enum):
    RED = 1


def test_specs_as_text_are_those_of_pytorch(pair):
    spec = pytree.tree_structure({"a": (1, 2)})
    leaf = '{"type": null, "context": null, "children_spec": []}'
    pairs = f'{{"type": "builtins.tuple", "context": "null", "children_spec": [{leaf}, {leaf}]}}'
    assert pytree.treespec_dumps(spec) == (
        f'[1, {{"type": "builtins.dict", "context": "[\\"a\\"]", "children_spec": [{pairs}]}}]'
    )
    for tree in ({Color.RED: 1}, defaultdict(list, a=1), deque([1], maxlen=2), Pair(1, [2])):
        spec = pytree.tree_structure(tree)
        assert pytree.treespec_loads(pytree.treespec_dumps(spec)) == spec
    with pytest.raises(NotImplementedError, match="_register_namedtuple"):
        pytree.treespec_dumps(pytree.tree_structure(Point(1, 2)))
    with pytest.raises(NotImplementedError, match="Deserializing nobody in pytree is not registered"):
        pytree.treespec_loads('[1, {"type": "nobody", "context": "1", "children_spec": []}]')
    with pytest.raises(ValueError, match="Unknown protocol 3"):
        pytree.treespec_dumps(spec, 3)
    assert pytree.treespec_pprint(pytree.tree_structure((1, {"a": 2}))) == "(*, {'a': *})"


def test_a_prefix_is_broadcast():
    spec = pytree.tree_structure([(1, 2), 3])
    assert pytree._broadcast_to_and_flatten([0, 1], spec) == [0, 0, 1]
    assert pytree._broadcast_to_and_flatten(5, spec) == [5, 5, 5]
    assert pytree._broadcast_to_and_flatten([0, 1, 2], spec) is None
