import pytest

from turnchart.flows.secrets import SECRET, masked


@pytest.mark.parametrize(
    "text",
    [
        "sk-ant-api03-abcdefghijklmnop", "ghp_" + "a" * 30, "glpat-" + "a" * 20, "xoxb-1234567890-abc",
        "AKIA" + "A" * 16, "AIza" + "a" * 35, "hf_" + "a" * 30, "-----BEGIN RSA PRIVATE KEY-----",
        "Authorization: Bearer " + "a" * 20, "https://ann:pass-word@host/v1",
        "https://abcdef0123456789@host/v1",
    ],
)  # fmt: skip
def test_what_looks_like_a_secret_is_masked(text: str) -> None:
    assert SECRET.search(text)
    assert len(masked(text)) == len(text)
    assert masked(text).count("*") >= 10


@pytest.mark.parametrize(
    "text",
    [
        "ask-me-anything-you-like",
        "sk-short",
        "task-abcdefghijklmnopqrstuv",
        "plain",
        "http://127.0.0.1:8080/@v1",
        "https://ann@host",
        "https://ann:${PASSWORD}@host",
    ],
)
def test_other_text_is_left_alone(text: str) -> None:
    assert masked(text) == text
