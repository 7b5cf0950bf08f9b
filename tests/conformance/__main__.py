"""``python -P -m triten.tests.conformance``."""

import sys

from .command import main

sys.exit(main())
