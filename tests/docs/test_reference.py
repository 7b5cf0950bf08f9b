"""Pages of the reference: a page for each public name, with mathematics, every parameter and an example."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import GenericAlias, ModuleType

import pytest

import triten as tt
from triten.dispatch.codegen.__main__ import DISPATCH
from triten.dispatch.codegen.load import load_functions

pytest.importorskip("sphinx", reason="converts docstrings as the site does")
tex2mathml = importlib.import_module("docutils.utils.math.latex2mathml").tex2mathml

EXTENSIONS = Path(__file__).parents[2] / "docs" / "extensions"
MODULES = ("docstrings", "formulas", "mathml", "overviews", "public_names", "symbol_pages")
LAYERS = [
    "Linear",
    "Bilinear",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveMaxPool2d",
    "LPPool2d",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "LayerNorm",
    "RMSNorm",
    "GroupNorm",
    "InstanceNorm2d",
    "Dropout",
    "Dropout2d",
    "Embedding",
    "EmbeddingBag",
    "RNN",
    "LSTM",
    "GRU",
    "MultiheadAttention",
    "TransformerEncoderLayer",
    "ReLU",
    "GELU",
    "SiLU",
    "Sigmoid",
    "Tanh",
    "Softmax",
    "LogSoftmax",
    "LeakyReLU",
    "ELU",
    "CrossEntropyLoss",
    "NLLLoss",
    "MSELoss",
    "L1Loss",
    "SmoothL1Loss",
    "HuberLoss",
    "BCELoss",
    "BCEWithLogitsLoss",
    "KLDivLoss",
    "CTCLoss",
]
OPTIMIZERS = [
    "SGD",
    "Adam",
    "AdamW",
    "RMSprop",
    "lr_scheduler.StepLR",
    "lr_scheduler.MultiStepLR",
    "lr_scheduler.ExponentialLR",
    "lr_scheduler.LinearLR",
    "lr_scheduler.LambdaLR",
    "lr_scheduler.CosineAnnealingLR",
    "lr_scheduler.ReduceLROnPlateau",
]
MOST_USED = [*(f"nn.{name}" for name in LAYERS), *(f"optim.{name}" for name in OPTIMIZERS)]


@pytest.fixture(scope="module")
def extensions() -> Iterator[dict[str, ModuleType]]:
    """Return the modules of the site's extensions by name."""
    sys.path.insert(0, str(EXTENSIONS))
    try:
        yield {name: importlib.import_module(name) for name in MODULES}
    finally:
        sys.path.pop(0)
        for name in MODULES:
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def pages(extensions: dict[str, ModuleType]) -> dict[str, str]:
    """Return the text of each page by the public name that it describes."""
    return {name: "\n".join(lines) for name, lines in extensions["symbol_pages"].pages()}


@pytest.mark.parametrize("name", ["formulas", "mathml", "symbol_pages"])
def test_examples_of_extensions_run(extensions: dict[str, ModuleType], name: str) -> None:
    result = doctest.testmod(extensions[name])
    assert result.attempted
    assert not result.failed


def test_formulas_of_operators_are_mathematics(extensions: dict[str, ModuleType]) -> None:
    functions = load_functions(DISPATCH / "native_functions").functions
    formulas = {function.docs.formula for function in functions if function.docs and function.docs.formula}
    converted = {text: extensions["formulas"].formula_as_latex(text) for text in formulas}
    for latex in filter(None, converted.values()):
        tex2mathml(latex)
    prose = sorted(text for text, latex in converted.items() if latex is None)
    assert len(prose) < 0.1 * len(formulas), prose


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("x_i / sum_j x_j", r"\frac{x_{i}}{\sum_{j} x_{j}}"),
        ("x if x > 0, 0 otherwise", r"\begin{cases}x & \text{if }x > 0 \\ 0 & \text{otherwise}\end{cases}"),
        ("a = b; c = d", r"\begin{aligned}a = b \\ c = d\end{aligned}"),
        ("|x - y|^2", r"{\left|x - y\right|}^{2}"),
        ("input ^ other", r"\text{input} \oplus \text{other}"),
        ("floor(i * W / W_out)", r"\left\lfloor{} \frac{i \cdot W}{W_{\text{out}}} \right\rfloor"),
        ("the limit of f", None),
    ],
)
def test_a_formula(extensions: dict[str, ModuleType], text: str, latex: str | None) -> None:
    assert extensions["formulas"].formula_as_latex(text) == latex


def test_each_public_name_has_a_page(extensions: dict[str, ModuleType], pages: dict[str, str]) -> None:
    names, symbols = extensions["public_names"], extensions["symbol_pages"]
    heads = set(re.findall(r"^(?:\.\. py:\w+:: | {10,})([\w.]+)", "\n".join(pages.values()), re.MULTILINE))
    for namespace in names.NAMESPACES:
        for name in names.public_names(namespace):
            full = f"{namespace}.{name}"
            if symbols.has_page(namespace, name):
                assert full in pages
            elif callable(symbols.object_named(full)) and full not in symbols.DESCRIBED_BY_HAND:
                # Another name of an object, an in-place form, or an alias of a type.
                assert name in heads or isinstance(symbols.object_named(full), GenericAlias)


def test_a_page_describes_other_names_and_in_place_forms(pages: dict[str, str]) -> None:
    assert "relu_(input: Tensor)" in pages["triten.relu"]
    assert "   The same as :py:obj:`triten.relu_`." in pages["triten.relu"]


def test_attributes_that_hold_functions_and_classes_are_no_members(pages: dict[str, str]) -> None:
    assert [
        name for name, text in pages.items() if ":: function\n" in text or ":: cls_to_become" in text
    ] == []
    assert ".. py:method:: reset_parameters() -> None" in pages["triten.nn.LazyConv2d"]
    assert ".. py:method:: forward(input: Tensor) -> Tensor" in pages["triten.nn.Conv2d"]


def test_defaults_are_written_as_python(pages: dict[str, str]) -> None:
    assert "padding_mode: str = 'zeros'" in pages["triten.nn.Conv2d"]
    assert "mode: str = 'nearest'" in pages["triten.nn.functional.interpolate"]


def test_a_page_names_relatives_and_source(pages: dict[str, str]) -> None:
    assert "* :py:obj:`triten.conv2d`:" in pages["triten.nn.Conv2d"]
    assert "* :py:obj:`triten.nn.Conv2d`:" in pages["triten.conv2d"]
    assert "``dispatch/native_functions/softmax.yaml``" in pages["triten.softmax"]
    assert ".. py:method:: Tensor.softmax(" in pages["triten.softmax"]
    assert "nn/modules/conv.py``" in pages["triten.nn.Conv2d"]


@pytest.mark.parametrize("name", MOST_USED)
def test_most_used_names_document_all_parameters(name: str) -> None:
    value = tt
    for part in name.split("."):
        value = getattr(value, part)
    text = inspect.getdoc(value) or ""
    arguments = text.partition("Args:\n")[2].partition("\n\n")[0]
    documented = {
        each.strip()
        for line in arguments.splitlines()
        for each in line.partition(": ")[0].split(",")
        if line.startswith("    ") and not line.startswith("     ")
    }
    parameters = [
        each.name
        for each in inspect.signature(value).parameters.values()
        if not each.name.startswith("_") and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
    ]
    assert [each for each in parameters if each not in documented] == []
    assert "Example:\n" in text
    assert name.startswith("optim.") or "Shape:\n" in text


@pytest.mark.parametrize(
    "name", [name for name in LAYERS if "Conv" in name or name[:-2].endswith(("MaxPool", "AvgPool"))]
)
def test_sizes_of_results_are_formulas(pages: dict[str, str], name: str) -> None:
    if not name.startswith("Adaptive"):
        assert r"_{\text{out}} =" in pages[f"triten.nn.{name}"]
