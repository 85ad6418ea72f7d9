"""Tools of MCP servers: programs or addresses that offer tools over the Model Context Protocol.

The SDK is loaded when the first server is connected, not before: ``pip install 'turnchart[mcp]'``.
"""
