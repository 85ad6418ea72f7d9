"""What secrets look like in text, and taking them out.

Every pattern takes time in proportion to the text, whatever the text is: a run of characters is scanned from
its start only (a lookbehind sees to that) and never given back (possessive quantifiers). Nothing has an upper
length, so that no end of a secret stays behind.
"""

import re
from collections.abc import Sequence
from functools import cache, partial
from typing import NamedTuple

PLACEHOLDER = re.compile(r"\[redacted [\w-]+\]")

ROUNDS = 10
"""Taking one secret out can show another, in text that is made to confuse; each round leaves less to find."""


class Secret(NamedTuple):
    """One kind of secret. Of what the pattern finds, the last group is taken out; without a group, all."""

    name: str
    hints: tuple[str, ...]
    """In lower case; a text with none of them cannot hold such a secret."""
    pattern: str
    flags: int


def redact(text: str, custom: Sequence[re.Pattern[str]] = ()) -> str:
    """Return the text with ``[redacted NAME]`` for each secret. Doing it twice changes nothing more."""
    for _ in range(ROUNDS):
        clean = _redact_once(text, custom)
        if clean == text:
            break
        text = clean
    return text


def _redact_once(text: str, custom: Sequence[re.Pattern[str]]) -> str:
    lower = text.lower()
    for secret in SECRETS:
        if any(hint in lower for hint in secret.hints):
            text = _compiled(secret).sub(partial(_replaced, secret.name), text)
    for pattern in custom:
        text = _redact_custom(text, pattern)
    return text


def is_secret_name(name: str) -> bool:
    """Return whether a value under this name, in a file or an object, is a secret."""
    return _secret_name().search(name) is not None


def is_reference(value: str) -> bool:
    """Return whether a value only stands for a secret: a variable, a template, a mask."""
    return _REFERENCE.fullmatch(value) is not None


def _replaced(name: str, found: re.Match[str]) -> str:
    group = found.lastgroup or 0
    if is_reference(found[group]):
        return found[0]
    start, end = (at - found.start() for at in found.span(group))
    return f"{found[0][:start]}[redacted {name}]{found[0][end:]}"


def _redact_custom(text: str, pattern: re.Pattern[str]) -> str:
    """Redact what a pattern of the user's finds between what is redacted already."""
    pieces = re.split(f"({PLACEHOLDER.pattern})", text)
    pieces[::2] = [
        pattern.sub(lambda found: found[0] and "[redacted custom]", piece) for piece in pieces[::2]
    ]
    return "".join(pieces)


_REFERENCE = re.compile(
    r"\$\{[^}]*\}|\$\([^)]*\)|\$[A-Z_][A-Z0-9_]*|\{\{[^}]*\}\}|\{[^}]*\}|<[^>]*>|\*+|\[redacted [\w-]+\]",
    re.ASCII,
)

# The end of a name under which a secret stands: `DB_PASSWORD`, `apiKey`, `client-secret`; no `page_token`.
_NOT_SECRET = ("public", "primary", "foreign", "sort", "cache", "partition", "page", "next", "continuation")
_NOT_BEFORE = "".join(f"(?<!{word}{gap})" for word in _NOT_SECRET for gap in ("_", "-", ""))
_NAME = (
    r"(?:secret|passw(?:or)?d|passphrase|pwd|credentials?"
    rf"|{_NOT_BEFORE}(?:token|(?<=[_-])key|(?<=api)key|(?-i:(?<=[a-z])Key)))(?![\w-])"
)
_CAPITAL_NAME = (
    r"(?-i:SECRET|PASSW(?:OR)?D|PASSPHRASE|PWD|CREDENTIALS?"
    rf"|(?i:{_NOT_BEFORE})(?:TOKEN|(?<=_)KEY|(?<=API)KEY))"
)
_OPTION = rf"(?<![\w-])--[\w-]*?{_NAME}"
_IS = r"(?:\\*[\"'])?\s{0,3}+(?:=>|:=|=|:)\s{0,3}+"
_EVIDENT = r"(?=[^\s\"']{0,60}?[0-9!@#%^*])"
_BARE = r"(?P<secret>[^\s\"'`,;&|<>(){}\[\]\\]{6,}+)(?![(\[{])"
_QUOTED = r"(?P<open>\\*[\"'])(?P<quoted>(?:(?!(?P=open))(?:\\.|[^\n\\])){4,}+)"
_CAPITAL_VALUE = r"(?P<capital>(?:\[redacted [\w-]+\]|[^\s\"'`;&|<>()\\]){4,}+)"

_START = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt]))"  # of a word; in a JSON text, `\n` may stand before it
_KEY_BLOCK = r"(?:(?!PRIVATE)[A-Z0-9]+ )*+PRIVATE KEY(?: BLOCK)?-----"
_KEY_HEADER = r"(?:Proc-Type|DEK-Info|Version|Comment|Hash|Charset): [^\n\\]*"


@cache  # not when this is imported: most programs that know of this hook never run it
def _secret_name() -> re.Pattern[str]:
    return re.compile(rf"{_NAME}\Z", re.ASCII | re.IGNORECASE)


@cache
def _compiled(secret: Secret) -> re.Pattern[str]:
    return re.compile(secret.pattern, secret.flags)


def _secret(name: str, hints: str, *patterns: str, flags: int = 0) -> Secret:
    return Secret(name, tuple(hints.split()), "|".join(patterns), re.ASCII | flags)


SECRETS: tuple[Secret, ...] = (
    # A block, also one that was cut off at its end; then what was cut off at its beginning.
    _secret(
        "private_key", "private", rf"-----BEGIN {_KEY_BLOCK}(?:"
        rf"(?:(?!-----BEGIN )(?s:.)){{0,12000}}?-----END {_KEY_BLOCK}"
        rf"|(?:{_KEY_HEADER}|[A-Za-z0-9+/=\s\\]){{16,}}+)",
    ),
    _secret(
        "private_key", "private",
        rf"(?<![A-Za-z0-9+/=\s\\])[A-Za-z0-9+/=\s\\]{{16,}}+-----END {_KEY_BLOCK}",
    ),
    _secret("url_password", "://", r"(?<=://)[^\s/:@\"'<>]*+:(?P<secret>[^\s/\"'<>]+)@"),
    _secret("aws_access_key", "akia asia abia acca", _START + "(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16,}+"),
    _secret(
        "github_token", "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        _START + "gh[pousr]_[A-Za-z0-9]{16,}+", _START + r"github_pat_\w{16,}+",
    ),
    _secret("gitlab_token", "glpat-", _START + r"glpat-[\w-]{16,}+"),
    _secret("anthropic_key", "sk-ant-", _START + r"sk-ant-[\w-]{8,}+"),
    _secret(
        "openai_key", "sk-", _START + r"sk-(?:proj|svcacct|admin|None)-[\w-]{8,}+",
        _START + r"sk-(?:(?=[\w-]{0,60}?[0-9])[\w-]{16,}+|[A-Za-z0-9]{20,}+[\w-]*+)",
    ),
    _secret("google_key", "aiza ya29.", _START + r"AIza[\w-]{30,}+", _START + r"ya29\.[\w.-]{16,}+"),
    _secret(
        "slack_token", "xox xapp- hooks.slack.com", _START + "xox[a-z]-[A-Za-z0-9-]{8,}+",
        _START + "xapp-[A-Za-z0-9-]{8,}+", r"(?<=hooks\.slack\.com/services/)[\w/-]{8,}+",
    ),
    _secret(
        "stripe_key", "_live_ _test_ whsec_", _START + "(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{8,}+",
        _START + "whsec_[A-Za-z0-9+/=]{8,}+",
    ),
    _secret("npm_token", "npm_", _START + "npm_[A-Za-z0-9]{20,}+"),
    _secret("pypi_token", "pypi-age", _START + r"pypi-AgE[\w-]{16,}+"),
    _secret("huggingface_token", "hf_", _START + "hf_[A-Za-z0-9]{20,}+"),
    _secret("jwt", "eyj", _START + r"eyJ[\w-]{6,}+(?:\.[\w-]*+){2,4}"),
    _secret(
        "bearer_token", "bearer",
        _START + r"bearer\s{1,5}+(?P<secret>(?=[\w.~+/=-]{0,60}?[0-9])[\w.~+/=-]{10,}+|[\w.~+/=-]{24,}+)",
        flags=re.IGNORECASE,
    ),
    _secret(
        "authorization", "authorization",
        r"authorization(?:\\*[\"'])?\s{0,3}+[:=]\s{0,3}+(?:\\*[\"'])?(?:basic|bearer|token|digest|apikey)\s{1,3}+"
        r"(?P<secret>[^\s\"',;\\\[{$<]{4,}+)",
        flags=re.IGNORECASE,
    ),
    _secret(
        "secret", "key token secret passw passphrase pwd credential",
        f"{_CAPITAL_NAME}={_CAPITAL_VALUE}", f"{_NAME}{_IS}(?:{_QUOTED}|{_EVIDENT}{_BARE})",
        flags=re.IGNORECASE,
    ),
    _secret("secret", "--", rf"{_OPTION}\s{{1,3}}+{_EVIDENT}{_BARE}", flags=re.IGNORECASE),
)  # fmt: skip
"""The kinds of secrets, those with a shape of their own first; the last go by the name before a value."""
