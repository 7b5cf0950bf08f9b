"""Implementations of flash attention by name: one at a time is active."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from triten.nn import attention
from triten.nn.attention import flash_implementations


@pytest.fixture(autouse=True)
def nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(flash_implementations, "_activations", {})
    monkeypatch.setattr(flash_implementations, "_active", None)
    yield


class Handle:
    """Counts how often it was removed."""

    removed = 0

    def remove(self) -> None:
        self.removed += 1


def test_one_is_active_until_another_is() -> None:
    handles = {"b": Handle(), "a": Handle()}
    for name, handle in handles.items():
        attention.register_flash_attention_impl(name, register_fn=lambda handle=handle: handle)
    assert attention.list_flash_attention_impls() == ["a", "b"]
    assert attention.current_flash_attention_impl() is None
    for name in handles:
        attention.activate_flash_attention_impl(name)
        assert attention.current_flash_attention_impl() == name
    assert [handle.removed for handle in handles.values()] == [1, 0]
    attention.restore_flash_attention_impl()
    assert attention.current_flash_attention_impl() is None
    assert [handle.removed for handle in handles.values()] == [1, 1]


def test_an_implementation_without_a_handle() -> None:
    calls = []
    attention.register_flash_attention_impl("plain", register_fn=lambda: calls.append("plain"))
    attention.activate_flash_attention_impl("plain")
    assert calls == ["plain"]
    assert attention.current_flash_attention_impl() is None


def test_an_unknown_name(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(
        ValueError, match=r"Unknown flash attention impl 'FA9'\. Available implementations: \[\]"
    ):
        attention.activate_flash_attention_impl("FA9")
    with caplog.at_level(logging.WARNING):
        attention.restore_flash_attention_impl(_raise_warn=False)
        assert not caplog.records
        attention.restore_flash_attention_impl()
    assert "no custom impl was activated" in caplog.text
