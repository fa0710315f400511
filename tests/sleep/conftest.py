"""What the longer tests of sleeping sessions share with those of the package: kinds of state, waking elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import hypothesis

sys.path.insert(0, str(Path(__file__).parent.parent / "python"))

hypothesis.settings.register_profile("here", database=None)
hypothesis.settings.load_profile("here")
