"""Detection of compiled loops; a missing llvmlite is a failure if a wheel of it exists."""

import sys
import sysconfig

import pytest

from triten.runtime.cpu import object_code

HAS_WHEEL = (
    sys.platform == "linux"
    and sys.implementation.name == "cpython"
    and not sysconfig.get_config_var("Py_GIL_DISABLED")
)
"""Where a wheel of llvmlite exists, which the extra `test` brings."""
needs_llvm = pytest.mark.skipif(
    not HAS_WHEEL and object_code.target() is None, reason="llvmlite has no wheel for this Python"
)
