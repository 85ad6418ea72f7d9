from collections.abc import Callable

import pytest

from turnchart.flows.problems import Problem

Found = Callable[..., list[tuple[str, int, int]]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("model: script:s.yaml\n", []),
        ("model: script:bad.yaml\n", [("yaml-syntax", 1, 1)]),
        ("model: script:none.yaml\n", [("file-missing", 2, 8)]),
        ("model: script:../s.yaml\n", [("path-outside", 2, 8)]),
        ("model: {id: a:b, fallback: ['script:none.yaml']}\n", [("file-missing", 2, 29)]),
        ("model: {id: test, fallback: [a:b, test]}\n", [("bad-value", 2, 35)]),
        ("model: {id: a:b, api_key_env: NOT_SET}\n", [("key-variable", 2, 31)]),
        ("model: {id: a:b, api_key_env: SET}\n", []),
        ("prompt: {file: p.md}\n", []),
        ("prompt: [{file: p.md}, {file: none.md}]\n", [("prompt-missing", 2, 31)]),
        ("prompt: [{file: latin.md}]\n", [("prompt-missing", 2, 17)]),
        ("prompt: [{file: big.md}]\n", [("file-size", 2, 17)]),
        ("prompt: [{file: /etc/hostname}]\n", [("path-outside", 2, 17)]),
        ("prompt: [{}]\n", [("missing-key", 2, 10)]),
        ("prompt: [Be kind, Be brief]\n", []),
        ("prompt:\n  - Be kind\n  - and brief\n", []),
        ("prompt: [Be kind, and brief]\n", [("prompt-split", 2, 19)]),
        ("retry: {base_delay: 90}\n", [("delay-order", 2, 21)]),
        ("retry: {max_delay: 0.5}\n", [("delay-order", 2, 20)]),
        ("session: {store: sqlite, path: a/b.db}\n", []),
        ("session: {store: sqlite, path: ../b.db}\n", [("path-outside", 2, 32)]),
        ("session: {path: x}\n", [("missing-key", 2, 10)]),
        ("description: AKIAABCDEFGHIJKLMNOP\n", [("secret-literal", 2, 14)]),
    ],
)
def test_settings(
    write: Callable[..., object], found: Found, text: str, expected: list[tuple[str, int, int]]
) -> None:
    write("- Hi\n", "s.yaml")
    path = write("x", "latin.md")
    getattr(path, "write_bytes")(b"\xff")  # noqa: B009  # the fixture promises no more than a path
    write("x" * (1024 * 1024 + 1), "big.md")
    write("Be kind.\n", "p.md")
    write("[", "bad.yaml")
    assert found(text, SET="1") == expected


def test_no_secret_is_printed(problems: Callable[..., list[Problem]]) -> None:
    secret = "sk-ant-abcdefghijklmnopqrstuvwx"
    for text in (f"description: {secret}\n", f"modell: {secret}\n", f"queues: {{steering: {secret}}}\n"):
        told = problems(text)
        assert told
        assert not any(secret in str(problem) for problem in told)
