"""A tool call straight to a pod's TLS port, over one kept connection, its certificate checked like any client would."""

import http.client
import json
import socket
import ssl


class Door:
    def __init__(self, address, port, ca_pem, server_name, timeout=30):
        context = ssl.create_default_context(cadata=ca_pem)
        raw = socket.create_connection((address, port), timeout=timeout)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connection = http.client.HTTPConnection(server_name, port, timeout=timeout)
        self.connection.sock = context.wrap_socket(raw, server_hostname=server_name)
        self.number = 0

    def call(self, token, tool, arguments):
        """Returns (HTTP status, body as JSON or text)."""
        self.number += 1
        body = {"jsonrpc": "2.0", "id": self.number, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        self.connection.request("POST", "/mcp", json.dumps(body), {
            "Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": f"Bearer {token}"})
        answer = self.connection.getresponse()
        text = answer.read()
        try:
            return answer.status, json.loads(text)
        except ValueError:
            return answer.status, text.decode(errors="replace")


def server_name(uid):
    return f"{uid}.env.cuddy.internal"
