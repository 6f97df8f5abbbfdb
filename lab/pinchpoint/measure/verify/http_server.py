"""A real server behind a balancer: it answers every GET by its number and logs who asked for what.

Run as a program: `http_server.py NUMBER ADDRESS PORT`. It prints `ready`, then a line `ADDRESS PATH` for each request.
"""

import sys
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer


class Numbered(BaseHTTPRequestHandler):
    """Answers with the number of its server."""

    protocol_version = "HTTP/1.1"
    timeout = 60

    def do_GET(self) -> None:
        """The number, whatever was asked for."""
        body = f"server {sys.argv[1]}\n".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """The client's address and what it asked for."""
        print(self.client_address[0], self.path, flush=True)


class Server(ThreadingTCPServer):
    """Without http.server's look-up of its own name, which waits for name servers that a namespace does not reach."""

    allow_reuse_address = True
    daemon_threads = True


if __name__ == "__main__":
    with Server((sys.argv[2], int(sys.argv[3])), Numbered) as server:
        print("ready", flush=True)
        server.serve_forever()
