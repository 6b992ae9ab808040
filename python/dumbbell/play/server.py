"""Serves the playground to the browsers of this machine."""

import webbrowser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from dumbbell.errors import Failed
from dumbbell.writing import get_reason

_HOST = "127.0.0.1"


class _Handler(BaseHTTPRequestHandler):
    """Answers each request for the page, and refuses all others."""

    page = b""

    def do_GET(self) -> None:
        """Send the page."""
        found = self.path.partition("?")[0] == "/"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(self.page) if found else 0))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if found:
            self.wfile.write(self.page)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name of http.server
        """Print nothing: the terminal shows the address alone."""


def make_server(page: str, port: int) -> ThreadingHTTPServer:
    """Return a server of the page on the loopback address; port 0 is any that is free. Raises InputError."""
    handler = type("PageHandler", (_Handler,), {"page": page.encode()})
    try:
        return ThreadingHTTPServer((_HOST, port), handler)
    except (OSError, OverflowError) as error:
        raise Failed(f"port {port}: {get_reason(error)}", "a port that is free", command="play") from None


def serve(page: str, port: int, *, opens: bool) -> None:
    """Serve the page until Ctrl-C; `opens` also opens it in the browser."""
    with make_server(page, port) as server:
        address = f"http://{_HOST}:{server.server_address[1]}/"
        print(f"{address}  (Ctrl-C ends)", flush=True)
        if opens:
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()
