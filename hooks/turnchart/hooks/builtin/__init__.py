"""The built-in hooks, one module each, named as the hook; the registry imports it when it is asked for."""

BUILTIN = (
    "add_context",
    "add_text",
    "ask_unless",
    "audit_log",
    "deny_commands",
    "deny_paths",
    "fallback_on",
    "inject_on_signal",
    "keep_going",
    "model_after_tools",
    "model_judge",
    "notify",
    "redact_secrets",
    "repeat_guard",
    "require_command",
    "require_tool_call",
    "rewrite_command",
    "run_on_file",
    "token_budget",
    "trim_tool_results",
)
"""The names of the built-in hooks."""
