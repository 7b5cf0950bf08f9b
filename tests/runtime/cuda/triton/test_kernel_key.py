"""Keys of compiled kernels: the changes that affect them, those that do not, and kernels without a key."""

import importlib.util
import itertools
import os
import subprocess
import sys
import textwrap
import time
from collections import namedtuple

import pytest

from triten.runtime.cuda.triton import kernel_key as module
from triten.runtime.cuda.triton.kernel_key import KernelRequest, digest, kernel_key, triton_identity
from triten.runtime.cuda.triton.lazy_triton import tl
from triten.tests.shared.threads import PATIENCE
from triten.triton_kernels.elementwise import elementwise, pointwise_functions

OTHER = """
from triten.runtime.cuda.triton.lazy_triton import tl, triton

SHIFT = tl.constexpr(1)

@triton.jit
def shifted(x):
    return x + SHIFT

@triton.jit
def unused(x):
    return x - 1
"""

KERNELS = """
import math
from triten.runtime.cuda.triton.lazy_triton import libdevice, tl, triton
import other as f

SCALE = tl.constexpr(2.0)
TYPE = tl.float32
DEFAULT = 3

def host(n):
    return n + 1

@triton.jit
def scaled(x, by=DEFAULT):
    return libdevice.log1p(x).to(TYPE) * SCALE * by

@triton.jit
def kernel(x, out, n, BLOCK: tl.constexpr, FUNCTION: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, f.shifted(scaled(FUNCTION(tl.load(x + i, mask=i < n)))) * math.pi, mask=i < n)

@triton.jit
def untouched(x):
    return x
"""

KEY_ARGUMENTS = {
    "signature": {"x": "*fp32", "out": "*fp32", "n": "i32"},
    "divisible": frozenset({"x"}),
    "capability": 90,
    "options": {"num_warps": 4, "num_stages": 3, "enable_fp_fusion": False},
}
_names = itertools.count()


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("TRITON_", "MLIR_", "LLVM_")):
            monkeypatch.delenv(name)


@pytest.fixture
def kernels(tmp_path, monkeypatch):
    """Return kernels(text, other), which makes a module of `text` that imports a module of `other`."""

    def load(text, other=OTHER):
        namespace = {}
        for name, content in (("other", other), ("kernels", text)):
            path = tmp_path / f"{name}{next(_names)}.py"
            path.write_text(content)
            spec = importlib.util.spec_from_file_location(name, path)
            found = namespace[name] = importlib.util.module_from_spec(spec)
            monkeypatch.setitem(sys.modules, name, found)
            spec.loader.exec_module(found)
        return namespace["kernels"]

    return load


def key_of(found, **changed):
    constexprs = {"BLOCK": 64, "FUNCTION": found.untouched, **changed.pop("constexprs", {})}
    asked = {**KEY_ARGUMENTS, **changed}
    cuda = asked.pop("cuda", 0)
    return kernel_key(KernelRequest(found.kernel, constexprs=constexprs, **asked), cuda)


def test_a_key_is_the_same_for_the_same_text(kernels):
    first, second = key_of(kernels(KERNELS)), key_of(kernels(KERNELS))
    assert first == second
    assert len(first) == 64


def test_the_drivers_major_version_decides_who_assembles(kernels):
    found = kernels(KERNELS)
    assert key_of(found, cuda=12040) == key_of(found, cuda=12080)
    assert len({key_of(found, cuda=cuda) for cuda in (0, 12080, 13000)}) == 3


def test_a_key_is_the_same_in_another_process(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent("""
        from triten.runtime.cuda.triton.kernel_key import KernelRequest, kernel_key
        from triten.triton_kernels.elementwise import elementwise, pointwise_functions as f
        constants = {name: 0 for name in elementwise.dense.arg_names if name != "out"}
        constants["FUNCTION"] = f.gelu
        asked = elementwise.dense, {"out": "*fp32"}, constants, frozenset({"out"}), 90, {"num_warps": 4}
        print(kernel_key(KernelRequest(*asked)))
        """)
    )
    keys = set()
    for seed in ("1", "2"):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TRIT")}
        environment["PYTHONHASHSEED"] = seed
        done = subprocess.run(
            [sys.executable, "-P", program], env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
        keys.add(done.stdout)
        assert done.returncode == 0, done.stderr
    assert len(keys) == 1
    constants = dict.fromkeys(elementwise.dense.arg_names, 0)
    del constants["out"]
    constants["FUNCTION"] = pointwise_functions.gelu
    asked = elementwise.dense, {"out": "*fp32"}, constants, frozenset({"out"}), 90, {"num_warps": 4}
    here = kernel_key(KernelRequest(*asked))
    assert keys == {here + "\n"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("mask=i < n", "mask=n > i"),
        ("SCALE = tl.constexpr(2.0)", "SCALE = tl.constexpr(2)"),
        ("TYPE = tl.float32", "TYPE = tl.float64"),
        ("DEFAULT = 3", "DEFAULT = 4"),
        ("libdevice.log1p", "libdevice.expm1"),
        ("    return x\n", "    return -x\n"),
        ("import math", "class math:\n    pi = 3"),
    ],
)
def test_a_key_follows_everything_that_the_kernel_reaches(kernels, before, after):
    assert before in KERNELS
    lines = KERNELS.replace(before, after)
    assert key_of(kernels(lines)) != key_of(kernels(KERNELS))


@pytest.mark.parametrize(
    ("before", "after"),
    [("SHIFT = tl.constexpr(1)", "SHIFT = tl.constexpr(True)"), ("x + SHIFT", "SHIFT + x")],
)
def test_a_key_follows_other_modules(kernels, before, after):
    assert before in OTHER
    assert key_of(kernels(KERNELS, OTHER.replace(before, after))) != key_of(kernels(KERNELS))


def test_a_key_does_not_follow_what_is_not_reached(kernels):
    ours = KERNELS.replace("n + 1", "n + 2")
    others = OTHER.replace("x - 1", "x - 2")
    assert key_of(kernels(ours, others)) == key_of(kernels(KERNELS))


def test_a_default_is_the_value_that_it_had(kernels):
    later = "\nDEFAULT = 9\n"
    changed = KERNELS.replace("DEFAULT = 3", "DEFAULT = 4")
    assert key_of(kernels(changed + later)) != key_of(kernels(KERNELS + later))


def test_a_key_follows_the_line_that_profilers_show(kernels):
    assert key_of(kernels("\n" + KERNELS)) != key_of(kernels(KERNELS))


@pytest.mark.parametrize(
    "changed",
    [
        {"signature": {"x": "*fp64", "out": "*fp32", "n": "i32"}},
        {"signature": {"x": "*fp32", "out": "*fp32"}, "constexprs": {"n": 1}},
        {"signature": {"x": "*fp32", "out": "*fp32"}, "constexprs": {"n": True}},
        {"signature": {"x": "*fp32", "out": "*fp32"}, "constexprs": {"n": 1.0}},
        {"signature": {"x": "*fp32", "out": "*fp32"}, "constexprs": {"n": "1"}},
        {"signature": {"x": "*fp32", "out": "*fp32"}, "constexprs": {"n": None}},
        {"signature": {"x": "*fp32", "out": "*fp32"}, "constexprs": {"n": "None"}},
        {"signature": {"x": "*fp32", "out": "*fp32"}, "constexprs": {"n": 0.0}},
        {"signature": {"x": "*fp32", "out": "*fp32"}, "constexprs": {"n": -0.0}},
        {"signature": {"x": "*fp32", "out": "*fp32"}, "constexprs": {"n": tl.int32}},
        {"signature": {"x": "*fp32", "out": "*fp32"}, "constexprs": {"n": (1, 2)}},
        {"signature": {"x": "*fp32", "out": "*fp32"}, "constexprs": {"n": tl.constexpr(1)}},
        {"constexprs": {"FUNCTION": pointwise_functions.exp}},
        {"constexprs": {"FUNCTION": pointwise_functions.log}},
        {"constexprs": {"BLOCK": 128}},
        {"divisible": frozenset()},
        {"divisible": frozenset({"out"})},
        {"divisible": frozenset({"x", "out"})},
        {"capability": 80},
        {"options": {"num_warps": 8, "num_stages": 3, "enable_fp_fusion": False}},
        {"options": {"num_warps": 4, "num_stages": 3, "enable_fp_fusion": True}},
    ],
)
def test_a_key_follows_every_argument(kernels, changed, _seen={}):  # noqa: B006
    key = key_of(kernels(KERNELS), **changed)
    assert key is not None
    assert _seen.setdefault(key, changed) is changed
    assert key != key_of(kernels(KERNELS))


def test_the_order_of_arguments_by_name_does_not_matter(kernels):
    found = kernels(KERNELS)
    backwards = dict(reversed(KEY_ARGUMENTS["signature"].items()))
    assert key_of(found, signature=backwards) == key_of(found)
    options = dict(reversed(KEY_ARGUMENTS["options"].items()))
    assert key_of(found, options=options) == key_of(found)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DISABLE_PTXAS_OPT", "1"),
        ("PTXAS_OPTIONS", "-O1"),
        ("TRITON_PTXAS_PATH", "/no/such/ptxas"),
        ("TRITON_OVERRIDE_ARCH", "sm80"),
        ("TRITON_DEFAULT_FP_FUSION", "0"),
        ("LLVM_PASS_PLUGIN_PATH", "/plugin"),
    ],
)
def test_a_key_follows_variables_that_change_the_code(kernels, monkeypatch, name, value):
    found = kernels(KERNELS)
    before = key_of(found)
    monkeypatch.setenv(name, value)
    changed = key_of(found)
    assert None is not changed != before
    monkeypatch.delenv(name)
    assert key_of(found) == before


@pytest.mark.parametrize(
    "name",
    ["TRITON_CACHE_DIR", "TRITON_HOME", "TRITON_DUMP_DIR", "TRITON_PRINT_AUTOTUNING", "TRITEN_CACHE_DIR"],
)
def test_a_key_does_not_follow_other_variables(kernels, monkeypatch, name):
    found = kernels(KERNELS)
    before = key_of(found)
    monkeypatch.setenv(name, "/elsewhere")
    assert key_of(found) == before


def test_a_key_follows_the_ptxas_that_a_variable_names(kernels, monkeypatch, tmp_path):
    found = kernels(KERNELS)
    keys = {key_of(found)}
    ptxas = tmp_path / "ptxas"
    monkeypatch.setenv("TRITON_PTXAS_PATH", str(ptxas))
    keys.add(key_of(found))
    ptxas.write_text("one")
    keys.add(key_of(found))
    ptxas.write_text("other")
    keys.add(key_of(found))
    os.utime(ptxas, (time.time() - 100,) * 2)
    keys.add(key_of(found))
    assert len(keys) == 5


@pytest.mark.parametrize("name", module.ASKING_FOR_COMPILATION)
def test_who_asks_for_a_compilation_gets_one(kernels, monkeypatch, name):
    found = kernels(KERNELS)
    monkeypatch.setenv(name, "1")
    assert key_of(found) is None
    monkeypatch.setenv(name, "0")
    assert key_of(found) is not None


def test_a_key_follows_triton(kernels, monkeypatch):
    found = kernels(KERNELS)
    before = key_of(found)
    monkeypatch.setattr(module, "triton_identity", lambda: ("3.8.0", triton_identity()[1]))
    other_version = key_of(found)
    monkeypatch.setattr(module, "triton_identity", lambda: (triton_identity()[0], "rebuilt"))
    rebuilt = key_of(found)
    monkeypatch.setattr(module, "triton_identity", lambda: None)
    assert len({before, other_version, rebuilt}) == 3
    assert key_of(found) is None


def fake_triton(folder, version, library, record=True):
    (folder / "triton" / "_C").mkdir(parents=True)
    (folder / "triton" / "__init__.py").write_text(f'"""Triton."""\n__version__ = "{version}"\n')
    (folder / "triton" / "_C" / "libtriton.so").write_text(library)
    if record:
        info = folder / f"triton-{version}.dist-info"
        info.mkdir()
        info.joinpath("RECORD").write_text(
            f"triton/__init__.py,sha256=a,1\ntriton/_C/libtriton.so,sha256={library},2\n"
            f"triton/__pycache__/__init__.cpython-311.pyc,,\ntriton-{version}.dist-info/RECORD,,\n"
        )
    return folder


def identity_in(monkeypatch, folder):
    monkeypatch.setattr(sys, "path", [str(folder)])
    module.triton_identity.cache_clear()
    return triton_identity()


@pytest.fixture
def forgetful():
    yield
    module.triton_identity.cache_clear()


def test_triton_is_told_by_its_record_wherever_it_is_installed(tmp_path, monkeypatch, forgetful):
    monkeypatch.setitem(sys.modules, "triton", None)  # found without an import
    one = identity_in(monkeypatch, fake_triton(tmp_path / "one", "3.7.0", "x"))
    same = identity_in(monkeypatch, fake_triton(tmp_path / "same", "3.7.0", "x"))
    rebuilt = identity_in(monkeypatch, fake_triton(tmp_path / "rebuilt", "3.7.0", "y"))
    newer = identity_in(monkeypatch, fake_triton(tmp_path / "newer", "3.8.0", "x"))
    assert one == same
    assert one[0] == "3.7.0"
    assert len({one, rebuilt, newer}) == 3


def test_a_triton_without_a_record_is_told_by_its_library(tmp_path, monkeypatch, forgetful):
    folder = fake_triton(tmp_path / "built", "3.7.0", "x", record=False)
    before = identity_in(monkeypatch, folder)
    assert before == identity_in(monkeypatch, folder)
    (folder / "triton" / "_C" / "libtriton.so").write_text("longer")
    assert before != identity_in(monkeypatch, folder)


def test_no_triton_has_no_identity(tmp_path, monkeypatch, forgetful):
    monkeypatch.setattr(sys, "path_importer_cache", {})
    monkeypatch.setattr(sys, "meta_path", [])
    assert identity_in(monkeypatch, tmp_path) is None


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    "value",
    [object(), {1: 2}, (1, object()), print, os],
)
def test_a_constant_that_cannot_be_told_apart_has_no_key(kernels, value):
    assert key_of(kernels(KERNELS), constexprs={"BLOCK": value}) is None


def test_tuples_are_told_apart_by_class_and_items(kernels):
    found = kernels(KERNELS)
    keys = {
        key_of(found, constexprs={"BLOCK": value})
        for value in [(1, 2), (2, 1), Pair(1, 2), (1, (2,)), [1, 2]]
    }
    assert None not in keys
    assert len(keys) == 5


def test_a_naming_function_has_no_key(kernels):
    text = KERNELS.replace("@triton.jit\ndef kernel", "@triton.jit(repr=lambda _: 'x')\ndef kernel")
    assert key_of(kernels(text)) is None


@pytest.mark.parametrize("option", ["noinline=True", "debug=True"])
def test_a_key_follows_the_options_of_called_kernels(kernels, option):
    # On the same line, so that only the option differs.
    text = KERNELS.replace("@triton.jit\ndef scaled", f"@triton.jit({option})\ndef scaled")
    assert None is not key_of(kernels(text)) != key_of(kernels(KERNELS))


def test_kernels_that_name_each_other_have_a_digest(kernels):
    text = KERNELS.replace("def untouched(x):", "def untouched(x):\n    # see kernel")
    found = kernels(text)
    assert len({found.kernel.cache_key, found.untouched.cache_key, found.scaled.cache_key}) == 3
    assert found.kernel.cache_key == digest(found.kernel)


def test_a_code_key_ignores_documentation_and_layout_only(kernels):
    documented = KERNELS.replace(
        "def scaled(x, by=DEFAULT):\n",
        'def scaled(x, by=DEFAULT):\n    """Scale, unlike `host`."""\n    # why\n\n',
    )
    changed = KERNELS.replace("log1p(x)", "exp(x)")  # in a function that `kernel` calls
    plain, same, other = (kernels(text).kernel for text in (KERNELS, "# moved\n" + documented, changed))
    assert plain.code_key == same.code_key == digest(plain, code_only=True) != other.code_key
    assert plain.cache_key != same.cache_key  # line numbers are in the compiled kernel


RENAMED = (
    ("i = ", "lanes = ", "+ i", "+ lanes", "i < n", "lanes < n"),  # a local variable
    ("def kernel(x, out, n", "def kernel(source, target, count", "out + i", "target + i", "x + i", "source + i",
     "i < n", "i < count"),
    ("def scaled", "def scale_of", "scaled(FUNCTION", "scale_of(FUNCTION"),
    ("SCALE", "FACTOR"),
    ("TYPE", "KIND"),
    ("def untouched", "# x\ndef untouched"),
)  # fmt: skip


@pytest.mark.parametrize("names", RENAMED)
def test_a_code_key_ignores_names(kernels, names):
    renamed = KERNELS
    for old, new in zip(names[::2], names[1::2], strict=True):
        assert old in renamed
        renamed = renamed.replace(old, new)
    assert kernels(renamed).kernel.code_key == kernels(KERNELS).kernel.code_key


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tl.store(out + i", "tl.store(x + i"),  # another parameter
        ("def kernel(x, out,", "def kernel(out, x,"),  # another order of parameters
        ("i < n)))", "i < BLOCK)))"),
        ("SCALE * by", "by * SCALE"),
        ("SCALE = tl.constexpr(2.0)", "SCALE = tl.constexpr(2)"),
        ("DEFAULT = 3", "DEFAULT = 4"),
        ("TYPE = tl.float32", "TYPE = tl.float64"),
        ("f.shifted(scaled(", "scaled(f.shifted("),
        ("libdevice.log1p", "libdevice.expm1"),
        ("BLOCK: tl.constexpr", "BLOCK"),
        ("math.pi", "math.e"),
    ],
)
def test_a_code_key_follows_the_code(kernels, old, new):
    assert old in KERNELS
    changed, plain = kernels(KERNELS.replace(old, new)).kernel, kernels(KERNELS).kernel
    assert changed.code_key != plain.code_key


def test_two_variables_do_not_become_one(kernels):
    text = """
from triten.runtime.cuda.triton.lazy_triton import tl, triton

@triton.jit
def kernel(x, out):
    a = tl.load(x)
    b = tl.load(x + 1)
    tl.store(out, a - b)
"""
    swapped, renamed = text.replace("a - b", "b - a"), text.replace("a = ", "c = ").replace("a - b", "c - b")
    plain, other, same = (kernels(each).kernel.code_key for each in (text, swapped, renamed))
    assert plain == same != other


def test_parameters_of_called_kernels_keep_their_names(kernels):
    text = """
from triten.runtime.cuda.triton.lazy_triton import tl, triton

@triton.jit
def less(a, b):
    return a - b

@triton.jit
def kernel(x, out):
    tl.store(out, less(b=tl.load(x), a=1))
"""
    assert kernels(text).kernel.code_key != kernels(text.replace("(a, b)", "(b, a)")).kernel.code_key


REAL_KERNELS = """
import triton
import triton.language as tl

SCALE = tl.constexpr(2.0)
TYPE = tl.float32

@triton.jit
def scaled(x):
    return tl.sum(x, 0).to(TYPE) * SCALE

@triton.jit
def kernel(x, out, n, BLOCK: tl.constexpr, FUNCTION: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, scaled(FUNCTION(tl.load(x + i, mask=i < n))), mask=i < n)

@triton.jit
def untouched(x):
    return x
"""

REAL_PROGRAM = """
import os, sys
from triten.runtime.cuda.triton.kernel_key import KernelRequest, kernel_key
import importlib.util
keys = []
for path in sys.argv[1:]:
    spec = importlib.util.spec_from_file_location("kernels", path)
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    signature = {"x": "*fp32", "out": "*fp32", "n": "i32"}
    constexprs = {"BLOCK": 64, "FUNCTION": found.untouched}
    keys.append(kernel_key(KernelRequest(found.kernel, signature, constexprs, frozenset(), 90, {})))
print(keys)
"""


def test_a_users_own_kernels_have_keys(tmp_path):
    pair = "from collections import namedtuple\nPair = namedtuple('Pair', 'a b')\n"
    texts = [
        REAL_KERNELS,
        REAL_KERNELS + "\nunrelated = 3\n",
        REAL_KERNELS.replace("SCALE = tl.constexpr(2.0)", "SCALE = tl.constexpr(3.0)"),
        REAL_KERNELS.replace("TYPE = tl.float32", "TYPE = tl.float64"),
        REAL_KERNELS.replace("tl.sum(x, 0)", "tl.max(x, 0)"),
        REAL_KERNELS.replace("@triton.jit\ndef untouched", "@triton.constexpr_function\ndef untouched"),
        pair + REAL_KERNELS.replace("return x\n", "return Pair(x, x)\n"),
    ]
    paths = []
    for i, text in enumerate(texts):
        paths.append(tmp_path / f"kernels{i}.py")
        paths[-1].write_text(text)
    environment = {k: v for k, v in os.environ.items() if k not in ("TRITEN_CUDA", "TRITON_INTERPRET")}
    done = subprocess.run(
        [sys.executable, "-P", "-c", REAL_PROGRAM, *paths],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    same, unrelated, *changed, run_while_compiling, tuple_class = eval(done.stdout)
    assert same == unrelated is not None
    assert len({same, *changed}) == 4
    assert None not in changed
    assert run_while_compiling is None
    assert tuple_class is None
