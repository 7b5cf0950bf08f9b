"""Selective registration: a library's allowlist, and the message for the operators that it skips."""

import pytest

import triten as tt
from triten.dispatch.core.dispatcher import Dispatcher
from triten.library import Library

DISPATCHER = Dispatcher.singleton()
NS = "t_allowed"
SCHEMAS = [
    "add(Tensor x) -> Tensor",
    "add.Scalar(Scalar x) -> Tensor",
    "add_(Tensor(a!) x) -> Tensor(a!)",
    "conv1d(Tensor x) -> Tensor",
    "conv2d(Tensor x) -> Tensor",
    "conv2d.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)",
]


def registered() -> list[str]:
    prefix = f"{NS}::"
    return [name.removeprefix(prefix) for name in DISPATCHER.get_all_op_names() if name.startswith(prefix)]


@pytest.mark.parametrize(
    ("allowlist", "expected"),
    [
        (None, ["add", "add.Scalar", "add_", "conv1d", "conv2d", "conv2d.out"]),
        (["*"], ["add", "add.Scalar", "add_", "conv1d", "conv2d", "conv2d.out"]),
        ([], []),
        (["add"], ["add", "add.Scalar"]),
        (["add.Scalar"], ["add.Scalar"]),
        (["add_", "conv2d.out"], ["add_", "conv2d.out"]),
        (["conv*"], ["conv1d", "conv2d", "conv2d.out"]),
        (["*.out"], ["conv2d.out"]),
        (["conv?d"], ["conv1d", "conv2d", "conv2d.out"]),
        ([f"{NS}::add", f"{NS}::conv1*"], ["add", "add.Scalar", "conv1d"]),
        (["other::add", "ADD", "ad", "conv"], []),
    ],
    ids=str,
)
def test_what_an_allowlist_registers(allowlist: list[str] | None, expected: list[str]) -> None:
    skipped = dict(DISPATCHER.skipped)
    with Library(NS, "DEF", allowlist=allowlist) as library:
        for schema in SCHEMAS:
            name = library.define(schema)
            assert name == schema.partition("(")[0]
            library.impl(name, lambda *args: args[0], "CPU")
        assert registered() == expected
        assert [
            n.partition("::")[2] for n in DISPATCHER.get_registrations_for_dispatch_key("CPU") if NS in n
        ] == expected
    assert DISPATCHER.skipped == skipped
    assert registered() == []


def test_definition_and_function_are_passed_over_together() -> None:
    with Library(NS, "DEF", allowlist=["f"]) as library:
        library.define("f(Tensor x) -> Tensor", lambda x: x + 1)
        library.define("g(Tensor x) -> Tensor", lambda x: x + 2)
        assert registered() == ["f"]
        assert tt.ops.t_allowed.f(tt.zeros(1)).item() == 1.0


def test_calls_of_what_was_passed_over_say_so() -> None:
    with Library(NS, "DEF", allowlist=["f.one"]) as library:
        for schema in ("f.one(Tensor x) -> Tensor", "f.two(Tensor x) -> Tensor", "g(Tensor x) -> Tensor"):
            library.define(schema)
        why = rf"the allowlist of the library at {__file__}:\d+ passes over it"
        with pytest.raises(AttributeError, match=rf"'{NS}' has no operator 'g' \({why}\)"):
            tt.ops.t_allowed.g(tt.ones(1))
        with pytest.raises(AttributeError, match=rf"has no overload 'two' \({why}\); it has \['one'\]"):
            tt.ops.t_allowed.f.two(tt.ones(1))
        with pytest.raises(RuntimeError, match=rf"Could not find schema for {NS}::g \({why}\)"):
            DISPATCHER.find_schema_or_throw(f"{NS}::g")
        with pytest.raises(AttributeError, match=r"has no operator 'h'$"):
            tt.ops.t_allowed.h  # noqa: B018 - reading it raises
    with pytest.raises(
        AttributeError, match=r"has no operator 'g': no operator is defined in this namespace"
    ):
        tt.ops.t_allowed.g  # noqa: B018


def test_another_library_may_define_what_one_passes_over() -> None:
    with Library(NS, "DEF", allowlist=[]) as one, Library(NS, "FRAGMENT") as two:
        one.define("f(Tensor x) -> Tensor", lambda x: x + 1)
        two.define("f(Tensor x) -> Tensor", lambda x: x + 2)
        assert tt.ops.t_allowed.f(tt.zeros(1)).item() == 2.0


def test_kernels_of_an_impl_library_are_selected_too() -> None:
    with Library(NS, "DEF") as library, Library(NS, "IMPL", "CPU", allowlist=["f"]) as kernels:
        for name in ("f", "g"):
            library.define(f"{name}(Tensor x) -> Tensor")
            kernels.impl(name, lambda x: x)
        x = tt.ones(1)
        assert tt.ops.t_allowed.f(x) is x
        with pytest.raises(NotImplementedError, match=rf"'{NS}::g' with arguments from the 'CPU' backend"):
            tt.ops.t_allowed.g(x)


def test_what_is_passed_over_is_checked_all_the_same() -> None:
    with Library(NS, "DEF", allowlist=[]) as library:
        with pytest.raises(RuntimeError, match="expected"):
            library.define("f(Tensor x -> Tensor")
        with pytest.raises(RuntimeError, match="the schema names namespace other"):
            library.define("other::f(Tensor x) -> Tensor")
        with pytest.raises(RuntimeError, match="could not parse dispatch key: GPU"):
            library.impl("f", lambda x: x, "GPU")
