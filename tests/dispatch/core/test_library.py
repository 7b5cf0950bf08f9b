"""`tt.library.Library`: definitions, kernels, fragments, fallbacks, an allowlist."""

from collections.abc import Iterator
from typing import Any

import pytest

import triten as tt
from triten.dispatch.core import operator_entry
from triten.dispatch.core.dispatcher import Dispatcher
from triten.library import Library

DISPATCHER = Dispatcher.singleton()
NS = "t_library"
# Which of the tests overrides first, and so warns, depends on the order in which they run.
pytestmark = pytest.mark.filterwarnings("ignore:Warning only once for all operators")


@pytest.fixture
def lib() -> Iterator[Library]:
    with Library(NS, "DEF") as made:
        yield made
    assert not [name for name in DISPATCHER.get_all_op_names() if name.startswith(f"{NS}::")]


def test_define_and_call(lib: Library) -> None:
    assert lib.define("double(Tensor x) -> Tensor") == "double"
    lib.impl("double", lambda x: x + x, "CPU")
    assert tt.ops.t_library.double(tt.ones(2)).tolist() == [2.0, 2.0]
    assert str(tt.ops.t_library.double.default._schema) == "t_library::double(Tensor x) -> Tensor"


def test_define_with_a_function_is_an_implicit_composite(lib: Library) -> None:
    lib.define("double(Tensor x) -> Tensor", lambda x: x + x)
    w = tt.ones(2).requires_grad_()
    tt.ops.t_library.double(w).sum().backward()
    assert w.grad.tolist() == [2.0, 2.0]
    assert tt.ops.t_library.double(tt.ones(2, device="meta")).is_meta


def test_a_definition_knows_its_place_and_tags(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor", tags=("pointwise",))
    entry = DISPATCHER.find_schema_or_throw(f"{NS}::f")
    assert __file__ in entry.source
    assert tt.ops.t_library.f.default.tags == {"pointwise"}


def test_the_schemas_namespace_must_be_the_librarys(lib: Library) -> None:
    lib.define(f"{NS}::f(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="the schema names namespace other"):
        lib.define("other::g(Tensor x) -> Tensor")


def test_a_second_definition_is_refused_with_both_places(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match=rf"{__file__}:\d+, again at .*{__file__}:\d+"):
        lib.define("f(Tensor y) -> Tensor")
    lib.define("f.other(Tensor y) -> Tensor")
    assert tt.ops.t_library.f.overloads() == ["default", "other"]


def test_a_malformed_schema_is_refused_with_its_place(lib: Library) -> None:
    with pytest.raises(Exception, match=__file__):
        lib.define("f(Tensor x -> Tensor")


def test_only_one_library_defines_a_namespace(lib: Library) -> None:
    with pytest.raises(RuntimeError, match=f"Only a single library can be registered for a namespace: {NS}"):
        Library(NS, "DEF")


def test_fragments_add_and_take_away_their_own(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor", lambda x: x)
    with Library(NS, "FRAGMENT") as one, Library(NS, "FRAGMENT") as two:
        one.define("g(Tensor x) -> Tensor", lambda x: x + 1)
        two.define("h(Tensor x) -> Tensor", lambda x: x + 2)
        assert tt.ops.t_library.g(tt.zeros(1)).item() == 1.0
        one.close()
        assert sorted(dir(tt.ops.t_library)) == ["f", "h"]
    assert dir(tt.ops.t_library) == ["f"]


def test_an_impl_library_has_a_key_and_defines_nothing(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")
    with Library(NS, "IMPL", "CPU") as impl:
        impl.impl("f", lambda x: x + 1)
        impl.impl("f", lambda x: x + 1, "CPU")
        assert tt.ops.t_library.f(tt.zeros(1)).item() == 1.0
        with pytest.raises(RuntimeError, match="cannot define operators"):
            impl.define("g(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError):
        tt.ops.t_library.f(tt.zeros(1))


def test_impl_by_overload_object_and_by_full_name(lib: Library) -> None:
    lib.define("f.Tensor(Tensor x) -> Tensor")
    lib.impl(tt.ops.t_library.f.Tensor, lambda x: x + 1, "CPU")
    assert tt.ops.t_library.f(tt.zeros(1)).item() == 1.0
    lib.impl(f"{NS}::f.Tensor", lambda x: x + 2, "Meta")
    assert tt.ops.t_library.f.Tensor.has_kernel_for_dispatch_key(tt.DispatchKey.Meta)


def test_an_impl_may_come_first(lib: Library) -> None:
    lib.impl("late", lambda x: x + 1, "CPU")
    with pytest.raises(AttributeError, match="no operator 'late'"):
        tt.ops.t_library.late  # noqa: B018 - reading it raises
    lib.define("late(Tensor x) -> Tensor")
    assert tt.ops.t_library.late(tt.zeros(1)).item() == 1.0


def test_a_kernel_without_a_key_is_an_implicit_composite(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x * 2)
    w = tt.ones(1, requires_grad=True)
    tt.ops.t_library.f(w).backward()
    assert w.grad.item() == 2.0


@pytest.mark.parametrize("wrong", [lambda: None, lambda x: x, lambda x, y, z: x, lambda x, y, *, z: x])
def test_a_kernel_that_cannot_take_the_arguments_raises_when_it_is_called(lib: Library, wrong: Any) -> None:
    lib.define("f(Tensor x, int y) -> Tensor")
    lib.impl("f", wrong, "CPU")
    with pytest.raises(TypeError, match="lambda"):
        tt.ops.t_library.f(tt.ones(1), 3)


@pytest.mark.parametrize("fitting", [lambda x, y: x, lambda *args: args[0], lambda x, y=1, z=2: x])
def test_kernels_that_can(lib: Library, fitting: Any) -> None:
    lib.define("f(Tensor x, int y) -> Tensor")
    lib.impl("f", fitting, "CPU")
    x = tt.ones(1)
    assert tt.ops.t_library.f(x, 3) is x


def test_a_kernel_with_key_set(lib: Library) -> None:
    seen: list[tt.DispatchKeySet] = []

    def kernel(keys: tt.DispatchKeySet, x: Any) -> Any:
        seen.append(keys)
        return x

    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", kernel, "CPU", with_keyset=True)
    tt.ops.t_library.f(tt.ones(1))
    assert seen[0].has(tt.DispatchKey.CPU)


def test_a_boxed_kernel(lib: Library) -> None:
    def boxed(op: Any, keys: Any, stack: list[Any]) -> None:
        y, x = stack.pop(), stack.pop()
        stack.append(tt.add(x, y))

    lib.define("f(Tensor x, int y=3) -> Tensor")
    lib.impl("f", boxed, "CPU", boxed=True)
    assert tt.ops.t_library.f(tt.zeros(1)).item() == 3.0
    assert tt.ops.t_library.f(tt.zeros(1), 4).item() == 4.0


def test_an_allowlist_passes_over_the_rest() -> None:
    with Library("t_allowed", "DEF", allowlist=["f", "g.out"]) as lib:
        for schema in ("f(Tensor x) -> Tensor", "f.Scalar(Scalar x) -> Tensor", "g(Tensor x) -> Tensor"):
            lib.define(schema)
        lib.define("g.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
        lib.impl("f", lambda x: x, "CPU")
        lib.impl("g", lambda x: x, "CPU")
        names = [n for n in DISPATCHER.get_all_op_names() if n.startswith("t_allowed::")]
        assert names == ["t_allowed::f", "t_allowed::f.Scalar", "t_allowed::g.out"]


def test_fallbacks_live_in_the_underscore(lib: Library) -> None:
    seen: list[tuple[str, list[Any]]] = []

    def fallback(op: Any, keys: tt.DispatchKeySet, stack: list[Any]) -> None:
        seen.append((op.name, list(stack)))
        del stack[:]
        stack.append("result")

    lib.define("f(Tensor x, int y=3) -> Tensor")
    f, x = tt.ops.t_library.f.default, tt.ones(1)
    keys = tt.DispatchKeySet(tt.DispatchKey.VE)
    with Library("_", "IMPL", "VE") as fallbacks:
        fallbacks.fallback(fallback)
        assert f.redispatch(keys, x) == "result"
        assert seen == [(f"{NS}::f", [x, 3])]
    with pytest.raises(NotImplementedError):
        f.redispatch(keys, x)


def test_a_fallback_may_redispatch(lib: Library) -> None:
    seen: list[str] = []

    def trace(op: Any, keys: tt.DispatchKeySet, stack: list[Any]) -> None:
        seen.append(op.name)
        DISPATCHER.redispatch_boxed(op, keys - tt.DispatchKey.SparseCPU, stack)

    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x + 1, "CPU")
    with Library("_", "IMPL", "SparseCPU") as fallbacks:
        fallbacks.fallback(trace)
        keys = tt.DispatchKeySet([tt.DispatchKey.SparseCPU, tt.DispatchKey.CPU])
        assert tt.ops.t_library.f.default.redispatch(keys, tt.zeros(1)).item() == 1.0
    assert seen == [f"{NS}::f"]


def test_a_fallback_where_there_is_one_is_refused() -> None:
    with Library("_", "IMPL") as fallbacks:
        with pytest.raises(RuntimeError, match="multiple backend fallbacks for the same dispatch key Python"):
            fallbacks.fallback(lambda op, keys, stack: None, "Python")
        fallbacks.fallback(lambda op, keys, stack: None, "VE")
        with pytest.raises(RuntimeError, match="multiple backend fallbacks for the same dispatch key VE"):
            fallbacks.fallback(lambda op, keys, stack: None, "VE")
        with pytest.raises(RuntimeError, match="no dispatch key is given"):
            fallbacks.fallback(lambda op, keys, stack: None)


def test_a_fallback_takes_the_place_of_a_fallthrough_until_it_is_taken_back(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x + 1, "CPU")
    keys = tt.DispatchKeySet([tt.DispatchKey.Tracer, tt.DispatchKey.CPU])
    seen: list[str] = []

    def trace(op, keys, stack):
        seen.append(op.name)
        stack[:] = [op.call_with_keys((keys - tt.DispatchKey.Tracer).raw_repr(), list(stack))]

    for _ in range(2):
        with Library("_", "IMPL") as fallbacks:
            fallbacks.fallback(tt.library.fallthrough_kernel, "Tracer")
            fallbacks.fallback(trace, "Tracer")
            tt.ops.t_library.f.default.redispatch(keys, tt.zeros(1))
        assert tt.ops.t_library.f.default.redispatch(keys, tt.zeros(1)).item() == 1.0
    assert seen == [f"{NS}::f"] * 2


def test_fallbacks_are_taken_back_in_any_order(lib: Library) -> None:
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x + 1, "CPU")
    keys = tt.DispatchKeySet([tt.DispatchKey.Tracer, tt.DispatchKey.CPU])
    first, second = Library("_", "IMPL"), Library("_", "IMPL")
    first.fallback(tt.library.fallthrough_kernel, "Tracer")
    second.fallback(lambda op, keys, stack: None, "Tracer")
    first.close()
    x = tt.zeros(1)
    assert tt.ops.t_library.f.default.redispatch(keys, x) is x
    second.close()
    assert tt.ops.t_library.f.default.redispatch(keys, x).item() == 1.0
    assert operator_entry.fallbacks[tt.DispatchKey.Tracer].source == "functionality without kernel"


def test_fallbacks_elsewhere_are_refused(lib: Library) -> None:
    with pytest.raises(RuntimeError, match="fallbacks are registered in the namespace '_'"):
        lib.fallback(lambda op, keys, stack: None, "VE")
    for kind in ("DEF", "FRAGMENT"):
        with pytest.raises(ValueError, match="reserved namespace"):
            Library("_", kind)


def test_an_unknown_kind() -> None:
    with pytest.raises(ValueError, match="Unsupported kind: OTHER"):
        Library("t_kind", "OTHER")


def test_overriding_an_operator_of_aten_and_giving_it_back() -> None:
    x = tt.tensor([-1.0, 2.0])
    assert x.relu().tolist() == [0.0, 2.0]
    with Library("aten", "IMPL", "CPU") as override:
        override.impl("relu", lambda x: x + 100.0)
        assert x.relu().tolist() == [99.0, 102.0]
        assert tt.relu(x).tolist() == [99.0, 102.0]
        w = x.detach().requires_grad_()
        assert w.relu().tolist() == [99.0, 102.0]
    assert x.relu().tolist() == [0.0, 2.0]
    assert tt.relu(x).tolist() == [0.0, 2.0]
    assert w.relu().tolist() == [0.0, 2.0]


def test_a_kernel_of_ones_own_for_autograd() -> None:
    class Straight(tt.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.relu()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad

    with Library("t_straight", "DEF") as lib:
        lib.define("relu(Tensor x) -> Tensor")
        lib.impl("relu", lambda x: x.relu(), "CPU")
        lib.impl("relu", lambda x: Straight.apply(x), "Autograd")
        w = tt.tensor([-1.0, 2.0]).requires_grad_()
        tt.ops.t_straight.relu(w).sum().backward()
        assert w.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("error", "message", "register"),
    [
        (TypeError, "required to be a callable but found type", lambda lib: lib.impl("f", 3, "CPU")),
        (RuntimeError, "either a name or an OpOverload", lambda lib: lib.impl(3, abs, "CPU")),
        (RuntimeError, "either a name or an OpOverload", lambda lib: lib.impl(tt.ops.aten.add, abs, "CPU")),
        (RuntimeError, "could not parse dispatch key: GPU", lambda lib: lib.impl("f", abs, "GPU")),
        (RuntimeError, r"namespace \(other\)", lambda lib: lib.impl("other::f", abs, "CPU")),
        (RuntimeError, "not register a meta kernel directly", lambda lib: lib.impl("f", abs, "Meta")),
        (
            RuntimeError,
            "Invalid alias_analysis type PURE",
            lambda lib: lib.define("g() -> ()", "PURE_FUNCTION"),
        ),
        (TypeError, "expected two strings", lambda lib: tt.library.impl(lib, "f", abs)),
    ],
)
def test_what_pytorch_refuses(lib: Library, error: type[Exception], message: str, register: Any) -> None:
    lib.define("f(Tensor x) -> Tensor", lambda x: x)
    with pytest.raises(error, match=message):
        register(lib)


@pytest.mark.parametrize(
    ("tag", "schema", "message"),
    [
        ("out", "g(Tensor x) -> Tensor", "at least one mutable argument"),
        ("out", "g(Tensor(a!) x) -> Tensor(a!)", r"keyword-only, and \['x'\] are not"),
        ("out", "g(*, Tensor(a!)[] out) -> ()", r"only supports Tensor mutable arguments, and \['out'\]"),
        ("out", "g(Tensor x, *, Tensor(a!) out) -> Tensor", "must return all mutable arguments"),
        ("inplace", "g(Tensor x) -> Tensor", "first positional argument to be a mutable Tensor"),
        ("inplace", "g(Tensor(a!) x) -> ()", "must return the first argument alone"),
        ("inplace", "g(Tensor(a!) x, Tensor(b!) y) -> Tensor(a!)", r"also mutates \['y'\]"),
    ],
)
def test_a_schema_has_the_form_of_its_tags(lib: Library, tag: str, schema: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lib.define(schema, tags=tag)
    lib.define("fine.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", tags="out")
    lib.define("fine_(Tensor(a!) x, int n) -> Tensor(a!)", tags="inplace")


@pytest.mark.parametrize("overload", ["", ".out"])
def test_a_positional_argument_is_written_without_a_named_alias_set(lib: Library, overload: str) -> None:
    def into(A: Any, out: Any) -> None:
        out.copy_(A + 1)

    lib.define(f"f{overload}(Tensor A, Tensor! out) -> ()")
    lib.impl(f"f{overload}", into, "CompositeExplicitAutograd")
    out = tt.zeros(2)
    assert tt.ops.t_library.f(tt.ones(2), out) is None
    assert out.tolist() == [2.0, 2.0] and out._version == 1
    assert tt.compile(lambda x: (tt.ops.t_library.f(x, y := tt.zeros(2)), y * 2)[1])(tt.ones(2)).tolist() == [
        4.0,
        4.0,
    ]


def test_namespaces_that_are_owned_or_reserved() -> None:
    with pytest.raises(RuntimeError, match="Only a single library can be registered for a namespace: aten"):
        Library("aten", "DEF")
    with pytest.raises(ValueError, match="prim is a reserved namespace"):
        Library("prim", "FRAGMENT")


def test_decorators_of_a_library(lib: Library) -> None:
    @tt.library.define(lib, "f(Tensor x) -> Tensor")
    def f(x: Any) -> Any:
        return x + 1

    @tt.library.impl(lib, "f", "CPU")
    def on_cpu(x: Any) -> Any:
        return x + 2

    assert (f(1), on_cpu(1)) == (2, 3)
    assert tt.ops.t_library.f(tt.zeros(1)).item() == 2.0


def test_destroyed_and_unreachable_libraries_take_their_kernels_back() -> None:
    x = tt.zeros(2)
    library = Library("aten", "IMPL")
    library.impl("sin", lambda x: x + 7, "CPU")
    assert tt.sin(x).tolist() == [7.0, 7.0]
    del library
    assert tt.sin(x).tolist() == [0.0, 0.0]
    library = Library("t_destroyed", "DEF")
    library.define("f(Tensor x) -> Tensor", lambda x: x)
    assert library.m is library
    library._destroy()
    assert library.m is None and not hasattr(tt.ops.t_destroyed, "f")
    with pytest.raises(AssertionError, match="Library object has been destroyed"):
        library.impl("f", abs, "CPU")


def test_a_library_that_is_collected_while_another_registers_is_taken_back_by_the_next() -> None:
    x = tt.zeros(1)
    library = Library("aten", "IMPL")
    library.impl("sin", lambda x: x + 7, "CPU")
    with DISPATCHER.lock:
        del library
        assert tt.sin(x).item() == 7.0
    with Library("t_next", "DEF") as following:
        following.define("f(Tensor x) -> Tensor")
    assert tt.sin(x).item() == 0.0


def test_a_key_other_than_the_librarys_is_refused() -> None:
    with tt.library.Library("aten", "IMPL", "CPU") as lib:
        for key in ("Meta", tt.DispatchKey.Meta):
            with pytest.raises(
                RuntimeError, match=r"key \(Meta\) is inconsistent with the dispatch key of .* \(CPU\)"
            ):
                lib.impl("relu", lambda x: x, key)
        lib.impl("relu", lambda x: x + 7, "CPU")
        assert tt.relu(tt.ones(1)).item() == 8
