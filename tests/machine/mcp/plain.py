"""An MCP server of an older protocol in plain Python: it starts at once, and lists a tool a page.

    python plain.py NAME...

Each tool gives back its arguments, the folder and the variable ``PLAIN``; ``die`` ends the process, ``grow``
puts ``grown`` into its place.
"""

import json
import os
import sys
from typing import Any

NO_METHOD = -32601
NAMES = sys.argv[1:]


def result_of(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a request is answered with; None where it is not known."""
    if method == "initialize":
        about = {"name": "plain", "version": "1"}
        able = {"tools": {"listChanged": True}}
        return {"protocolVersion": "2025-06-18", "capabilities": able, "serverInfo": about}
    if method == "tools/list":
        page = int(params.get("cursor", 0))
        found: dict[str, Any] = {"tools": [{"name": NAMES[page], "inputSchema": {"type": "object"}}]}
        return found | ({"nextCursor": str(page + 1)} if page + 1 < len(NAMES) else {})
    if method == "tools/call":
        if params["name"] == "die":
            sys.exit("killed by a call")
        if params["name"] == "grow":
            NAMES[NAMES.index("grow")] = "grown"
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}), flush=True)
        text = json.dumps([params["arguments"], os.getcwd(), os.environ.get("PLAIN")])
        return {"content": [{"type": "text", "text": text}]}
    return None


def main() -> None:
    """Answer line by line."""
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        said = result_of(asked["method"], asked.get("params", {}))
        error = {"code": NO_METHOD, "message": "no such method"}
        answer = {"error": error} if said is None else {"result": said}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)


if __name__ == "__main__":
    main()
