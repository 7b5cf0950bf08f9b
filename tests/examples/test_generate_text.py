"""The tokenizer encodes any text, and the GPT learns from its tokens."""

from collections.abc import Callable
from types import ModuleType

import pytest

import triten as tt


def test_the_tokenizer_gives_any_text_back(load_example: Callable[[str], ModuleType]) -> None:
    tokenizer = load_example("generate_text").BytePairEncoding("low lower lowest, new newer newest", 270)
    assert b" newe" in tokenizer.tokens or b" lowe" in tokenizer.tokens
    assert len(tokenizer.encode(" lower")) < len(b" lower")
    for text in ("lowest newer", "unseen: größer\n\n  λ", ""):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_equal_neighbors_merge_from_left_to_right(load_example: Callable[[str], ModuleType]) -> None:
    tokenizer = load_example("generate_text").BytePairEncoding("aaaa aaaa", 257)
    assert tokenizer.tokens[256] == b"aa"
    assert tokenizer.encode("aaa") == [256, ord("a")]


def test_training_and_generation(
    load_example: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    load_example("generate_text").main(
        ["--device", "cpu", "--steps", "5", "--vocabulary", "280", "--tokens", "2"]
    )
    printed = capsys.readouterr().out
    losses = [float(line.split()[2]) for line in printed.splitlines()[2:7]]
    assert losses[-1] < losses[0] and "Shall I" in printed


def test_a_token_does_not_depend_on_later_ones(
    load_example: Callable[[str], ModuleType], device: str
) -> None:
    tt.manual_seed(0)
    model = load_example("generate_text").GPT(20, width=16, layers=1).to(device).eval()
    tokens = tt.arange(8, device=device).unsqueeze(0)
    changed = tokens.clone()
    changed[0, 5:] = 19
    tt.testing.assert_close(model(tokens)[:, :5], model(changed)[:, :5])
