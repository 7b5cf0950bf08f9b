"""``python -P -m triten.tests.fuzz``."""

import sys

from .command import main

sys.exit(main())
