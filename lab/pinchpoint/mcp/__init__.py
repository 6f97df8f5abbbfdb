"""The lab for programs that speak the Model Context Protocol (MCP), over standard input and output.

`server`    the tools: what the commands print and the run folders hold, as data
"""
