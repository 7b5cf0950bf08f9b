"""NumPy's argument names work in every generated function and method with such parameters.

The registry provides the table. The test calls each name with a value that no argument accepts, under the
parameter's own name and under NumPy's. Both calls raise the same error, which shows that they mean the same;
an unknown name raises another error.
"""

import inspect
import re

import pytest

import triten as tt
from triten.dispatch.core.overload_packet import packets
from triten.dispatch.generated import functions
from triten.dispatch.generated import methods as tensor_methods
from triten.dispatch.schema.numpy_names import NUMPY_NAMES, OWN_NAMES


class Misfit:
    """Value that fits no argument."""


def callables():
    for name in packets:
        if hasattr(functions, name):
            yield f"tt.{name}", getattr(functions, name), ()
    for mixin in tensor_methods.TensorMethods.__bases__:
        for name, method in vars(mixin).items():
            if name in packets:
                yield f"tt.Tensor.{name}", method, (tt.ones(2, 3),)


def parameters_of(name, function):
    """Return the names of the parameters, or those of the overloads if they share no signature."""
    parameters = inspect.signature(function).parameters
    if all(p.kind is not p.VAR_KEYWORD for p in parameters.values()):
        return set(parameters)
    entries = packets[name.rpartition(".")[2]].schemas().values()
    found = {a.name for entry in entries for a in entry.schema.arguments if not a.is_out}
    return (found - {"self"}) | ({"input"} if "self" in found and not name.startswith("tt.Tensor") else set())


TABLE = [
    (name, function, first, own, numpy_name)
    for name, function, first in callables()
    for own in sorted(set(NUMPY_NAMES) & parameters_of(name, function))
    for numpy_name in NUMPY_NAMES[own]
    if numpy_name not in parameters_of(name, function)
]


def error_of(function, *args, **named):
    with pytest.raises(TypeError) as caught:
        function(*args, **named)
    return str(caught.value)


def test_the_table_is_not_empty():
    assert len(TABLE) > 2500 and {row[3] for row in TABLE} == set(NUMPY_NAMES)


def test_every_name_of_numpys_stands_for_its_parameter():
    different = {}
    for name, function, first, own, numpy_name in TABLE:
        expected = error_of(function, *first, **{own: Misfit()})
        given = error_of(function, *first, **{numpy_name: Misfit()})
        same = re.sub(rf"\b{numpy_name}\b", own, given) == re.sub(rf"\b{numpy_name}\b", own, expected)
        if not same or "unexpected keyword" in given:
            different[f"{name}({numpy_name}=)"] = given
    assert different == {}


def test_an_unknown_name_is_refused():
    taken = [
        name
        for name, function, first, _, _ in TABLE
        if not re.search("no_such_name|missing", error_of(function, *first, no_such_name=1))
    ]
    assert taken == []


def test_users_see_no_name_of_numpys_and_options_by_keyword_alone():
    for name, function, _, own, numpy_name in TABLE:
        parameters = inspect.signature(function).parameters
        assert numpy_name not in parameters and "beyond" not in parameters, name
        options = [p for p in parameters.values() if p.name in ("out", "requires_grad")]
        assert all(p.kind is p.KEYWORD_ONLY for p in options), (name, own)


def test_values(device):
    x = tt.arange(6.0, device=device).reshape(2, 3)
    assert tt.sum(x, axis=0).tolist() == x.sum(axis=0).tolist() == [3.0, 5.0, 7.0]
    assert x.mean(axis=1, keepdims=True).tolist() == [[1.0], [4.0]]
    assert tt.add(x1=x, x2=x, alpha=2).tolist() == (3 * x).tolist()
    assert tt.add(x, x2=1).tolist() == x.add(x2=1).tolist() == (x + 1).tolist()
    assert [f(a=x).shape for f in (tt.t, tt.neg, tt.zeros_like)] == [(3, 2), (2, 3), (2, 3)]
    assert tt.zeros_like(x=x, requires_grad=True).requires_grad
    assert tt.softmax(x, axis=-1).tolist() == x.softmax(-1).tolist()
    assert tt.cat((x, x), axis=1).shape == (2, 6) and x.unsqueeze(axis=1).shape == (2, 1, 3)
    assert tt.max(x, axis=1, keepdims=True).indices.tolist() == [[2], [2]]
    out = tt.empty(3, device=device)
    assert tt.sum(x, axis=0, out=out) is out and out.tolist() == [3.0, 5.0, 7.0]
    assert tt.reshape(a=x, shape=(3, 2)).shape == (3, 2)
    with tt.no_grad():
        assert x.amax(axis=0).tolist() == [3.0, 4.0, 5.0]


def test_values_under_modes_and_with_gradients():
    x = tt.arange(6.0).reshape(2, 3).requires_grad_()
    x.sum(axis=1).prod().backward()
    assert x.grad.tolist() == [[12.0] * 3, [3.0] * 3]
    assert tt.vmap(lambda row: row.sum(axis=0))(tt.ones(2, 3)).tolist() == [3.0, 3.0]
    with tt.autocast("cpu"):
        assert tt.sum(x1=tt.ones(2, 3), axis=1).tolist() == [3.0, 3.0]


def test_functions_written_by_hand():
    x = tt.ones(2, 3)
    assert tt.numel(x=x) == tt.numel(a=x) == 6 and tt.is_floating_point(x1=x)
    assert tt.is_same_size(x, x2=x) and x.is_same_size(x2=x)
    assert x.size(axis=1) == 3 and x.stride(axis=0) == 3
    assert tt.nn.functional.prelu(x=-x, weight=tt.ones(1)).tolist() == (-x).tolist()
    assert tt.nn.functional.cosine_similarity(x, x, axis=0).shape == (3,)
    for call in (
        lambda: tt.numel(x, x=x),
        lambda: tt.numel(x, y=x),
        lambda: tt.numel(x=x, a=x),
        lambda: x.size(0, axis=0),
        lambda: x.is_same_size(x, x2=x),
    ):
        with pytest.raises(TypeError, match=r"unexpected keyword argument|multiple values"):
            call()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: tt.sum(x, dim=0, axis=0),
        lambda x: x.sum(0, axis=0),
        lambda x: tt.sum(x, x=x),
        lambda x: tt.sum(input=x, a=x),
        lambda x: tt.neg(x=x, a=x),
        lambda x: tt.add(x, x, x2=x),
        lambda x: x.unsqueeze(0, axis=0),
        lambda x: tt.softmax(x, 0, axis=0),
        lambda x: tt.max(x, dim=0, axis=0),
        lambda x: tt.stack((x, x), 1, axis=1),
        lambda x: x.sum(x=x),
    ],
)
def test_one_argument_under_both_names_is_refused(call):
    x = tt.ones(2, 3)
    for _ in range(2):
        with pytest.raises(TypeError):
            call(x)


def test_superfluous_positions_are_refused():
    x = tt.ones(2, 3)
    for call, message in (
        (lambda: tt.neg(x, 5), r"neg\(\) takes 1 positional argument but 2 were given"),
        (lambda: tt.t(x, 5), r"t\(\) takes 1 positional argument but 2 were given"),
        (lambda: x.add(x, 5, 6), r"add\(\) takes"),
        (lambda: tt.argmax(x, 0, True, x), r"argmax\(\) takes from 1 to 3 positional arguments but 4 were"),
        (lambda: x.unsqueeze(0, 1), r"unsqueeze\(\) takes"),
        (
            lambda: tt.zeros_like(x, tt.float64),
            r"zeros_like\(\) takes 1 positional argument but 2 were given",
        ),
        (lambda: tt.reshape(x, 3, 2), r"reshape\(\) takes 2 positional arguments but 3 were given"),
    ):
        with pytest.raises(TypeError, match=message):
            call()


def test_methods_take_no_out():
    x = tt.ones(2, 3)
    for call in (lambda: x.softmax(0, out=x), lambda: x.neg(out=x), lambda: x.max(0, out=(x, x))):
        with pytest.raises(TypeError, match="unexpected keyword argument 'out'"):
            call()
    assert set(OWN_NAMES) == {name for names in NUMPY_NAMES.values() for name in names}
