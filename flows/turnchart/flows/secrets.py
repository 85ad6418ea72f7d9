"""Literals that look like secrets: found for a warning, masked wherever a line of a file is shown."""

import re
from typing import Final

SECRET: Final = re.compile(
    r"""
      \bsk-[A-Za-z0-9_-]{16,}                       # OpenAI, Anthropic and those who copied them
    | \b(?:ghp|gho|ghu|ghs|ghr|glpat)[_-][A-Za-z0-9_-]{20,} | \bgithub_pat_[A-Za-z0-9_]{20,}
    | \bxox[abeprs]-[A-Za-z0-9-]{10,}               # Slack
    | \bAKIA[0-9A-Z]{16}\b                          # Amazon
    | \bAIza[0-9A-Za-z_-]{30,}                      # Google
    | \b[Bb]earer\ [A-Za-z0-9._-]{20,}
    | \b(?:r8|hf)_[A-Za-z0-9]{30,}
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----
    | ://[^\s/:@"'$]*:[^\s/@"'$]+(?=@)              # user and password in an address; a variable is none
    | ://[^\s/:@"'$]{16,}(?=@)                      # a token in the place of both
    """,
    re.VERBOSE,
)


def masked(text: str) -> str:
    """Return text of the same length, with all but the first three characters of each secret as stars."""
    return SECRET.sub(lambda found: found[0][:3] + "*" * (len(found[0]) - 3), text)
