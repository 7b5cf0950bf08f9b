"""`tt.Tag`: the tags that operators declare in addition to their schemas."""

from pathlib import Path
from typing import Any

import pytest

import triten as tt
from triten.dispatch.codegen.load import read_entries
from triten.dispatch.core.dispatcher import Dispatcher
from triten.library import Library

NATIVE_FUNCTIONS = Path(tt.__file__).parent / "dispatch" / "native_functions"
OWN_TAGS = {"nondifferentiable"}


def test_the_tags_are_pytorchs() -> None:
    assert [tag.name for tag in tt.Tag] == sorted(tag.value for tag in tt.Tag)
    for name in (
        "core",
        "pointwise",
        "view_copy",
        "pt2_compliant_tag",
        "data_dependent_output",
        "inplace_view",
    ):
        assert tt.Tag[name] is getattr(tt.Tag, name)
        assert tt.Tag[name] == name
    assert not hasattr(tt.Tag, "nondifferentiable")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((), set()),
        (tt.Tag.core, {tt.Tag.core}),
        ("core", {tt.Tag.core}),
        ([tt.Tag.core, "pointwise", "core"], {tt.Tag.core, tt.Tag.pointwise}),
    ],
)
def test_a_definition_has_tags(given: Any, expected: set[tt.Tag]) -> None:
    with Library("t_tags", "DEF") as library:
        library.define("f(Tensor x) -> Tensor", tags=given)
        tags = tt.ops.t_tags.f.default.tags
        assert tags == expected
        assert all(isinstance(tag, tt.Tag) for tag in tags)


@pytest.mark.parametrize("unknown", ["nope", ["core", "nope"], [3], "Core", ["nondifferentiable"]])
def test_an_unknown_tag_is_refused(unknown: Any) -> None:
    with Library("t_tags", "DEF") as library:
        with pytest.raises(TypeError, match=r"t_tags::f: .* is no tag; expected one of core, .*view_copy"):
            library.define("f(Tensor x) -> Tensor", tags=unknown)
        assert Dispatcher.singleton().find_op("t_tags::f") is None
        library.define("f(Tensor x) -> Tensor")


def test_generated_operators_have_the_tags_of_their_declarations() -> None:
    relu, uniform = tt.ops.aten.relu.default, tt.ops.aten.uniform_.default
    assert relu.tags == {tt.Tag.core, tt.Tag.pointwise}
    assert tt.Tag.nondeterministic_seeded in uniform.tags
    assert tt.ops.aten.argmax.default.tags <= set(tt.Tag)


@pytest.mark.parametrize("path", sorted(NATIVE_FUNCTIONS.glob("*.yaml")), ids=lambda path: path.stem)
def test_declared_tags_exist(path: Path) -> None:
    known = {tag.value for tag in tt.Tag} | OWN_TAGS
    for entry, place in read_entries(path):
        declared = entry.get("tags", "")
        names = declared if isinstance(declared, list) else declared.replace(",", " ").split()
        assert set(names) <= known, place
