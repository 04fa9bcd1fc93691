"""A payment service that does as the test wants, as `PAYMENT_URL` has it."""

import http.server
import json
import threading


class Payments:
    """Takes every payment, but those by the method "empty-card"; `away` answers 503 so many times first."""

    def __init__(self):
        self.charges: list[dict] = []
        self.away = 0
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                wish = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status, said = service.answer(self.path, wish)
                body = json.dumps(said).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def answer(self, path: str, wish: dict) -> tuple[int, dict]:
        if path == "/refunds":
            return 200, {}
        if self.away:
            self.away -= 1
            return 503, {"detail": "come back later"}
        if wish.get("method") == "empty-card":
            return 402, {"detail": "the card has no money on it"}
        if wish["key"] not in {charge["key"] for charge in self.charges}:
            self.charges.append(wish)
        return 201, {"id": wish["key"]}

    def stop(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
