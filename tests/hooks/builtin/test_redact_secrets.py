import re
from pathlib import PurePath
from typing import Any

import pytest

from turnchart.hooks import HOOKS, Block, Context, Deny, PostTool, PreTool, run_chain
from turnchart.hooks.builtin._secrets import SECRETS, redact
from turnchart.machine.chain import BoundHook
from turnchart.machine.entries import Frozen
from turnchart.machine.errors import HookFailed
from turnchart.machine.messages import (
    AssistantMessage,
    CustomMessage,
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)

pytestmark = pytest.mark.anyio

# Cut in two, so that nobody's scanner takes the examples for real ones.
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
GITHUB = "ghp_" + "abcdefghijklmnopqrstuvwxyz0123456789"
OPENAI = "sk-" + "proj-abcDEF123_ghi-JKL456mno"
SLACK = "xoxb-" + "123456789012-abcdefghijklmnop"
STRIPE = "sk_live_" + "abcdefghijklmnop12345"
JWT = "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0.abc_DEF-123"
PEM = "-----BEGIN {0}PRIVATE KEY-----\n{1}\n-----END {0}PRIVATE KEY-----"
LINES = "MIIEpAIBAAKCAQEA7bq+/x\nabcdEFGH0123\n=="

SHAPES = [
    (AWS, "aws_access_key"),
    (GITHUB, "github_token"),
    ("github_pat_" + "11ABCDEFG0abcdefghijkl_mnopqrstuvwxyz", "github_token"),
    ("glpat-" + "abcdefghij0123456789", "gitlab_token"),
    ("sk-ant-" + "api03-abcDEF123_-xyz", "anthropic_key"),
    (OPENAI, "openai_key"),
    ("sk-" + "abcdefghijklmnopqrstuvwxyz", "openai_key"),
    ("AIza" + "SyA1234567890abcdefghijklmnopqrstuv", "google_key"),
    ("ya29." + "a0AfH6SMBabcdefghijkl", "google_key"),
    (SLACK, "slack_token"),
    (STRIPE, "stripe_key"),
    ("whsec_" + "abcdefgh12345678", "stripe_key"),
    ("npm_" + "abcdefghijklmnopqrstuvwxyz0123456789", "npm_token"),
    ("pypi-" + "AgEIcHlwaS5vcmcCJDAwMDAw", "pypi_token"),
    ("hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH", "huggingface_token"),
    (JWT, "jwt"),
    (PEM.format("RSA ", LINES), "private_key"),
    (PEM.format("", LINES.replace("\n", "\\n")), "private_key"),
    (PEM.format("OPENSSH ", LINES), "private_key"),
    (PEM.format("RSA ", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AB\n\n" + LINES), "private_key"),
    (PEM.format("EC ", "  1| MHcCAQEEIB\n  2| abc"), "private_key"),
    (PEM.format("", LINES)[:60], "private_key"),
    (PEM.format("", LINES)[29:], "private_key"),
]


@pytest.mark.parametrize(("secret", "name"), SHAPES)
@pytest.mark.parametrize(
    "around", ["{}", "see {} there", '{{"a": "{}"}}', "a\n{}\nb", "({})", "'{}',", '"a\\n{}\\n"']
)
def test_secrets_with_a_shape_of_their_own(secret: str, name: str, around: str) -> None:
    text = around.format(secret)
    clean = redact(text)
    assert f"[redacted {name}]" in clean
    assert not any(part in clean for part in re.findall(r"[A-Za-z0-9_-]{6,}", secret) if part not in name)
    assert redact(clean) == clean


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("API_KEY=abc123", "API_KEY=[redacted secret]"),
        ("export DB_PASSWORD=correcthorse && ls", "export DB_PASSWORD=[redacted secret] && ls"),
        ("AWS_SECRET_ACCESS_KEY=wJalr/K7MDENG+bPx=", "AWS_SECRET_ACCESS_KEY=[redacted secret]"),
        ("aws_secret_access_key = wJalr/K7MDENG+bPx", "aws_secret_access_key = [redacted secret]"),
        ("MY_SECRET='a b c d'", "MY_SECRET='[redacted secret]'"),
        ('"password": "hunter2", "x": 1', '"password": "[redacted secret]", "x": 1'),
        ('"client_secret":"abc\\"def", "x": 2', '"client_secret":"[redacted secret]", "x": 2'),
        ('{\\"token\\": \\"abcd\\", \\"x\\": 1}', '{\\"token\\": \\"[redacted secret]\\", \\"x\\": 1}'),
        ('"password": "cut off', '"password": "[redacted secret]'),
        ("password: hunter2", "password: [redacted secret]"),
        ("apiKey: 'abcd1234'", "apiKey: '[redacted secret]'"),
        ("mysql --password hunter2 -u x", "mysql --password [redacted secret] -u x"),
        ("cli --api-key=abc12345", "cli --api-key=[redacted secret]"),
        ("https://x/y?api_key=abcdef12&a=1", "https://x/y?api_key=[redacted secret]&a=1"),
        (f"TOKEN={GITHUB}", "TOKEN=[redacted github_token]"),
        (f"TOKEN=pre-{GITHUB}-post", "TOKEN=[redacted secret]"),
        ("Authorization: Bearer abc123", "Authorization: Bearer [redacted authorization]"),
        ("'Authorization': 'Basic dXNlcjpwYXNz'", "'Authorization': 'Basic [redacted authorization]'"),
        (
            "curl -H 'authorization: token abcd1234'",
            "curl -H 'authorization: token [redacted authorization]'",
        ),
        ("bearer abcdef123456.7890", "bearer [redacted bearer_token]"),
        ("postgres://user:p@ss@host/db", "postgres://user:[redacted url_password]@host/db"),
        ("a\\nDB_PASSWORD=correcthorse\\n", "a\\nDB_PASSWORD=[redacted secret]\\n"),
        ("clientSecret => 'abcd'", "clientSecret => '[redacted secret]'"),
        ("ftp://u:pw@host", "ftp://u:[redacted url_password]@host"),
        ("redis://:pw123@host", "redis://:[redacted url_password]@host"),
    ],
)
def test_secrets_that_a_name_gives_away(text: str, clean: str) -> None:
    assert redact(text) == clean
    assert redact(clean) == clean


@pytest.mark.parametrize(
    "text",
    [
        "sorted(rows, key=lambda row: row[0])", "max_tokens=8192", "token_count: 5", "monkey=banana123",
        "page_token=abcdef1234567", "primary_key: users1234", "publicKey: 'abcdefgh'", "keyboard: qwerty123",
        'password = os.environ["DB_PASSWORD"]', "token = get_token(request1)", "connect(password=password)",
        "PASSWORD=$DB_PASSWORD", 'PASSWORD="${DB_PASSWORD}"', "password: string", "api_key=settings.api_key",
        '"token": "{{ token }}"', "password: ********", 'password = ""', '"Authorization": f"Bearer {token}"',
        "Authorization: Bearer ${TOKEN}", "if '-----BEGIN PRIVATE KEY-----' in text:", "bearer of good news",
        "sk-circle-fade-dot", "task-sk-abc", "http://localhost:8080/@scope/pkg", "https://user:${PW}@host",
        "git@github.com:user/repo.git", "eyJ.a.b", "AKIA is a prefix",
        "sha 0123456789abcdef0123456789abcdef01234567",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert redact(text) == text


PIECES = [
    "a", "A_", "--", "--a", "TOKEN", "-",
    "_key", "key=", "x_key='", "x_key=\"x_key='", "sk-", "sk-a-", "sk-ant-", "eyJ", "eyJaaaaaaa.",
    "-----BEGIN PRIVATE KEY-----", "-----BEGIN RSA RSA ", "-----END PRIVATE KEY-----", "AAAA\n", "RSA ", "://",
    "://a:", "://a:b@", "bearer ", "authorization: basic ", "token=", "PASSWORD=[redacted x]", "--token ",
    "[redacted ", "_token ", "password:   ", '\\"password\\":', 'password="\\',
    " ", "\n", "{", "\\", '"', "=", "0",
]  # fmt: skip
HINTS = " ".join(hint for secret in SECRETS for hint in secret.hints) + " "


@pytest.mark.parametrize("piece", PIECES)
def test_no_text_takes_long(piece: str) -> None:
    text = HINTS + piece * (60_000 // len(piece))
    assert len(redact(text)) > 0  # a quadratic pattern takes minutes: the time limit of every test stops it


# -- the hook ---------------------------------------------------------------------------------------


def made(point: str, **params: object) -> BoundHook:
    spec = HOOKS.get("redact_secrets")
    assert spec is not None
    return spec.bind(point, params)


async def test_arguments_are_cleaned_all_through() -> None:
    command = f"echo {AWS}"
    args = {"command": command, "env": {"DB_PASSWORD": "correct horse", "LIST": [GITHUB, 1, None, True]}}
    call = PreTool(tool="shell", args=args, subject=command, subject_name="command")
    verdict = await run_chain("pre_tool", call, [made("pre_tool")])
    assert verdict.payload.args == {
        "command": "echo [redacted aws_access_key]",
        "env": {"DB_PASSWORD": "[redacted secret]", "LIST": ("[redacted github_token]", 1, None, True)},
    }
    assert verdict.payload.subject == "echo [redacted aws_access_key]"
    assert verdict.trace[0].changed == ("args",)


async def test_clean_arguments_are_not_touched() -> None:
    call = PreTool(tool="t", args=Frozen(path=PurePath("a"), text="hello", list=("a",)))
    verdict = await run_chain("pre_tool", call, [made("pre_tool")])
    assert verdict.payload is call


async def test_a_result_is_cleaned_with_its_details_and_contexts() -> None:
    result = PostTool(
        content=(Text(f"key {AWS}"), Image("AKIA" + "A" * 40), Text("fine")),
        details={"stdout": f"key {AWS}", AWS: 1},
        context=f"by the way {AWS}",
    )
    verdict = await run_chain("post_tool", result, [made("post_tool")])
    gone = "[redacted aws_access_key]"
    assert verdict.payload.content == (Text(f"key {gone}"), Image("AKIA" + "A" * 40), Text("fine"))
    assert verdict.payload.details == {"stdout": f"key {gone}", gone: 1}
    assert verdict.payload.context == f"by the way {gone}"


CONVERSATION: list[Message] = [
    UserMessage(f"my key is {AWS}", id="u1"),
    AssistantMessage(
        (
            Thinking(f"it is {AWS}", signature="sealed"),
            Thinking("clean", signature="sealed"),
            ToolCall("shell", {"command": f"export T={GITHUB}"}, "c1"),
            ToolCall("shell", f"{{ {GITHUB}", "c2"),
        ),
        model="m",
        replay={"raw": AWS},
    ),
    ToolResultMessage("c1", "shell", f"ok {SLACK}", details={"token": "abcdefgh"}),
    CustomMessage("note", "clean", details={"raw": JWT}),
    AssistantMessage("clean", replay={"raw": "kept"}),
]


async def test_messages_are_cleaned_block_by_block() -> None:
    verdict = await run_chain("context", Context(messages=CONVERSATION), [made("context")])
    user, answer, result, custom, clean = verdict.payload.messages
    assert user == UserMessage("my key is [redacted aws_access_key]", id="u1")
    assert answer == AssistantMessage(
        (
            Thinking("it is [redacted aws_access_key]"),
            Thinking("clean", signature="sealed"),
            ToolCall("shell", {"command": "export T=[redacted github_token]"}, "c1"),
            ToolCall("shell", "{ [redacted github_token]", "c2"),
        ),
        model="m",
    )
    assert isinstance(answer, AssistantMessage)
    assert isinstance(answer.content[2], ToolCall)
    assert result.text == "ok [redacted slack_token]"
    assert result["details"] == {"token": "[redacted secret]"}
    assert custom["details"] == {"raw": "[redacted jwt]"}
    assert clean is CONVERSATION[4]


async def test_a_clean_conversation_is_not_rewritten() -> None:
    payload = Context(messages=[UserMessage("hello"), AssistantMessage("hi")])
    verdict = await run_chain("context", payload, [made("context")])
    assert verdict.payload is payload
    assert not verdict.trace[0].notable


async def test_a_message_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def counting(text: str, custom: Any = ()) -> str:
        read.append(text)
        return redact(text, custom)

    monkeypatch.setattr("turnchart.hooks.builtin.redact_secrets.redact", counting)
    hook, messages = made("context"), [UserMessage("a"), UserMessage(AWS)]
    await run_chain("context", Context(messages=messages), [hook])
    verdict = await run_chain("context", Context(messages=[*messages, UserMessage("b")]), [hook])
    assert [text for text in read if len(text) < 5] == ["a", "b"]
    assert [m.text for m in verdict.payload.messages] == ["a", "[redacted aws_access_key]", "b"]


async def test_own_patterns_are_taken_out_besides() -> None:
    hook = made("pre_tool", patterns=["ACME-[0-9]+", "x*", "redacted"])
    call = PreTool(args={"text": f"ACME-12 {AWS} redacted"})
    verdict = await run_chain("pre_tool", call, [hook])
    assert verdict.payload.args == {"text": "[redacted custom] [redacted aws_access_key] [redacted custom]"}
    again = await run_chain("pre_tool", verdict.payload, [hook])
    assert again.payload is verdict.payload


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every attempt to clean a text fail, with the secret in the error."""

    def fails(text: str, custom: Any = ()) -> str:
        raise RuntimeError(AWS)

    monkeypatch.setattr("turnchart.hooks.builtin.redact_secrets.redact", fails)


@pytest.mark.usefixtures("broken")
async def test_when_it_fails_nothing_gets_through() -> None:
    with pytest.raises(HookFailed):
        await run_chain("context", Context(messages=[UserMessage("a")]), [made("context")])
    call = await run_chain("pre_tool", PreTool(args={"a": "b"}), [made("pre_tool")])
    assert isinstance(call.decision, Deny)
    result = await run_chain("post_tool", PostTool(content=(Text(AWS),)), [made("post_tool")])
    assert isinstance(result.decision, Block)
    assert "result withheld" in result.decision.reason
    assert AWS not in result.decision.reason


@pytest.mark.usefixtures("broken")
async def test_a_flow_may_ask_for_warn_instead() -> None:
    spec = HOOKS.get("redact_secrets")
    assert spec is not None
    hook = spec.bind("post_tool", {}, on_error="warn")
    assert made("post_tool").on_error == "stop"
    assert made("pre_tool").on_error is None
    assert (await run_chain("post_tool", PostTool(), [hook])).decision is None
