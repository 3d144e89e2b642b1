"""``python -m hta_widgets`` is the command ``hta-widgets``."""

from __future__ import annotations

import sys

from hta_widgets.cli import main

sys.exit(main())
