"""The built-in hooks, one module each, named as the hook; the registry imports it when it is asked for."""

BUILTIN = (
    "add_context",
    "add_text",
    "ask_unless",
    "audit_log",
    "deny_commands",
    "deny_paths",
    "keep_going",
    "model_after_tools",
    "notify",
    "redact_secrets",
    "repeat_guard",
    "require_tool_call",
    "rewrite_command",
    "token_budget",
)
"""The names of the built-in hooks."""
