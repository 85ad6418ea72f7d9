"""Which version of Turnchart this is; the build reads it here."""

from typing import Final

VERSION: Final = "0.1.0"
