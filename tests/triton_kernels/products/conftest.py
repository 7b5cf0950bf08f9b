"""Fixture of the matmul tests: the names of the kernels that a test launched."""

import pytest

from triten.runtime.cuda.driver import driver


@pytest.fixture
def kernels():
    names = []

    def note(name, grid, stream, launch):
        names.append(name)
        launch()

    before = driver().observe_launches(note)
    yield names
    driver().observe_launches(before)
