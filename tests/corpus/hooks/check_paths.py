"""A command hook: the payload on stdin, a decision on stdout. Writes outside src/ and tests/ are denied."""

import json
import sys

path = json.load(sys.stdin)["args"].get("path", "")
if path.startswith(("src/", "tests/")):
    print("{}")
else:
    print(json.dumps({"decision": "deny", "reason": f"{path} is outside src/ and tests/"}))
