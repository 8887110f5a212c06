// Package mcp carries tool calls between an agent and the one who asked for its
// run: the hub's half forwards them to the caller's MCP server over streamable
// HTTP (Model Context Protocol, transports, revision 2025-06-18).
//
// Messages pass as bytes: ids, numbers and unknown members reach the other side
// as they came.
package mcp
