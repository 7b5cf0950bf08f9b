"""LoRA adapts a network through few parameters, and merged weights give the same outputs."""

import re
from collections.abc import Callable
from types import ModuleType

import pytest

import triten as tt


def test_turned_digits_are_learned(
    load_example: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    load_example("finetune_lora").main(["--device", "cpu", "--epochs", "2"])
    printed = capsys.readouterr().out
    rows = {
        name: float(turned) for name, turned in re.findall(r"^(\S.*?) {2,}\S+ +\S+ +(\S+)$", printed, re.M)
    }
    assert rows["LoRA"] > rows["trained"] + 20 and rows["all weights"] > 60, printed
    assert "same logits: True" in printed


def test_only_the_added_matrices_change(load_example: Callable[[str], ModuleType], device: str) -> None:
    example = load_example("finetune_lora")
    tt.manual_seed(0)
    model = tt.nn.Sequential(tt.nn.Linear(6, 5), tt.nn.ReLU(), tt.nn.Linear(5, 3)).to(device)
    x = tt.randn(4, 6, device=device)
    first = model(x)
    adapted = example.add_lora(model, 2)
    tt.testing.assert_close(adapted(x), first)  # B is zero
    adapted(x).square().sum().backward()
    trained = {name.rpartition(".")[2] for name, p in adapted.named_parameters() if p.grad is not None}
    assert trained == {"a", "b"}
