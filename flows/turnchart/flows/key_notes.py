"""What each key of a flow file means, in one sentence: editors show it, and the reference is made of it.

By the class in ``schema`` that reads the map, then by the key as it is written.
"""

from collections.abc import Mapping
from typing import Final

NOTES: Final[Mapping[str, Mapping[str, str]]] = {
    "FlowFile": {
        "version": "The version of the format.",
        "name": "What the flow is called; the name of the file unless given.",
        "description": "What it is for; as a tool, what the model reads of it.",
        "extends": "Another flow, relative to this file; what stands here goes over what it says.",
        "params": "What is left open, by name: ${param:NAME} stands for the value.",
        "model": "The model that answers: provider:name, or a map.",
        "prompt": "The system prompt: text, a file, or a list of both.",
        "tools": "What the model may call: names of tools that come along, or maps.",
        "permissions": "Which calls run, which are asked about, and which are denied.",
        "hooks": "The chains of hooks, by hook point; each runs from top to bottom.",
        "disable_hooks": "Ids of hooks, also of a parent, that do not run.",
        "extensions": "Hooks that stand on several points at once, with one object.",
        "output": "The form that the last answer of a turn must have.",
        "queues": "How many of the messages that wait are taken at once.",
        "retry": "When a failed request is tried again, and after how long.",
        "compaction": "How a conversation is made shorter that outgrows the model's window.",
        "session": "Where the log is kept; in .turnchart/sessions.db unless given.",
        "limits": "What one turn may spend.",
        "mcp": "MCP servers, by name; a tool entry with mcp: NAME takes their tools.",
    },
    "ModelSpec": {
        "id": "provider:name; test answers ok, and script:FILE plays a script.",
        "settings": "What is asked of the provider with every request.",
        "extra": "Settings of this provider alone, handed on as they are.",
        "fallback": "Models that are asked, in this order, when the one before has given up.",
        "api_key_env": "The variable of the environment that holds the key.",
        "base_url": "Another address than the provider's own.",
        "context_window": "How many tokens the model reads at once, where it is not known.",
        "cooldown": "Seconds for which a model that gave up is left alone, where there is a fallback.",
    },
    "ModelSettings": {
        "max_tokens": "How long an answer may be, in tokens.",
        "temperature": "How freely the next token is chosen.",
        "top_p": "Choose among the likeliest tokens that have this share together.",
        "top_k": "Choose among so many of the likeliest tokens.",
        "seed": "A number that makes answers repeatable, where the provider can.",
        "stop_sequences": "Texts at which the answer ends.",
        "presence_penalty": "Keep away from what was mentioned at all.",
        "frequency_penalty": "Keep away from what was said often.",
        "parallel_tool_calls": "Whether one answer may ask for several tools.",
        "thinking": "How much the model thinks before it answers.",
    },
    "PromptPart": {
        "file": "A text file, relative to this file.",
        "text": "The text itself.",
    },
    "ToolEntry": {
        "use": "The name of a tool that comes along or that a plug-in brings, or agent for another flow.",
        "mcp": "The name of an MCP server: all its tools, called server.tool.",
        "only": "Globs over the tools of the server; all unless given.",
        "with": "The parameters of the tool.",
        "as": "Another name for the tool, or for the server before the dot.",
        "execution": "exclusive runs alone; parallel may run beside other parallel calls.",
    },
    "ServerSpec": {
        "command": "The program to start, with its arguments; no shell reads it.",
        "env": "Variables that the program gets.",
        "env_from": "Variables of our environment that it gets: NAME, or {NAME: OTHER}.",
        "cwd": "The folder that it starts in, below the root.",
        "url": "The address of a server that runs elsewhere (streamable HTTP).",
        "bearer_env": "The variable that holds the token for the header Authorization.",
        "headers_env": "Headers, each with the variable that holds its value.",
        "timeout": "Seconds that a request to the server may take.",
    },
    "HookEntry": {
        "use": "The name of a hook that comes along or that a plug-in brings.",
        "run": "A program with its arguments: JSON on stdin, JSON on stdout; no shell reads it.",
        "with": "The parameters of the hook.",
        "id": "A name for messages and for disable_hooks; two hooks cannot share one.",
        "tools": "Globs: act only where a call of these tools is concerned.",
        "timeout": "Seconds until the hook counts as failed.",
        "on_error": "warn goes on without the hook that failed; stop does not.",
        "disabled": "true: the hook does not run.",
        "max_continues": "How often in one turn this hook may send the model back to work.",
        "env": "Variables that the program gets.",
        "env_from": "Variables of our environment that it gets: NAME, or {NAME: OTHER}.",
        "cwd": "The folder that it starts in, below the root.",
        "dialect": "claude_code: the program was written as a hook of Claude Code.",
    },
    "PermissionRules": {
        "default": "What holds for a call that no rule matches; tools that only read run unless given.",
        "deny": "Rules for calls that never run; they beat every other rule.",
        "ask": "Rules for calls that a person is asked about; they beat allow.",
        "allow": "Rules for calls that run: a tool, a glob, or tool(pattern).",
    },
    "QueueModes": {
        "steering": "What people say to a running turn: all of it with the next request, or one at a time.",
        "follow_up": "Prompts that wait: one a turn, or all in one turn.",
    },
    "RetryRules": {
        "max_attempts": "Attempts for one step and model, the first included.",
        "base_delay": "Seconds of the longest first wait; it doubles with each attempt.",
        "max_delay": "Seconds that no wait exceeds; a provider that asks for more is not waited for.",
        "honor_retry_after": "Wait as long as the provider says, where it says so.",
        "retry_on": "Kinds of failures that are tried again; those that pass by themselves unless given.",
    },
    "CompactionRules": {
        "strategy": "summarize writes a summary, drop_oldest leaves the beginning out, none does nothing.",
        "trigger": "The share of the window, without the tokens of an answer, that starts it.",
        "keep_last": "So many of the user's last turns stay as they are.",
        "model": "Who writes summaries; the model that answers unless given.",
    },
    "SessionSpec": {
        "store": "memory keeps nothing, jsonl one file a session, sqlite all sessions in one file.",
        "path": "For sqlite a file, for jsonl a folder, relative to the root.",
        "with": "The parameters of a store that a plug-in registers.",
    },
    "LimitRules": {
        "max_steps": "Requests that the model answers.",
        "max_tool_calls": "Calls of tools; those above it get a result that says so.",
        "max_seconds": "Seconds, without those that people are waited for.",
        "max_continues": "How often hooks may send the model back to work.",
        "max_retries": "How often hooks may try one step again.",
    },
    "ExtensionEntry": {
        "use": "The name of a hook that is a class.",
        "with": "Its parameters.",
        "id": "A name for messages and for disable_hooks; it stands for all its hooks.",
    },
    "ParamSpec": {
        "type": "What a value must be.",
        "default": "The value where none is given; without a default one must be given.",
        "description": "What it is for.",
    },
    "OutputSpec": {
        "schema": "A JSON Schema, or the file that holds it.",
    },
}
"""Every key has one; a test compares with ``schema``."""
