"""Custom operators that end with the test which defined them."""

from collections.abc import Iterator

import pytest

from triten.dispatch.custom_ops.custom_op import definitions


@pytest.fixture(autouse=True)
def no_operator_stays() -> Iterator[None]:
    before = set(definitions)
    yield
    for name in definitions.keys() - before:
        definitions.pop(name)._close()
