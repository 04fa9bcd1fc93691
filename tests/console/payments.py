"""A fake payment service for `PAYMENT_URL`."""

import http.server
import json
import threading


class FakePaymentServer:
    """Accepts every payment except with the method "empty-card". Fails the next `failures` requests with 503."""

    def __init__(self):
        self.charges: list[dict] = []
        self.failures = 0
        service = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                payment = json.loads(self.rfile.read(int(self.headers["content-length"])))
                status, result = service.respond(self.path, payment)
                body = json.dumps(result).encode()
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

    def respond(self, path: str, payment: dict) -> tuple[int, dict]:
        if path == "/refunds":
            return 200, {}
        if self.failures:
            self.failures -= 1
            return 503, {"detail": "temporarily unavailable"}
        if payment.get("method") == "empty-card":
            return 402, {"detail": "insufficient funds"}
        if payment["key"] not in {charge["key"] for charge in self.charges}:
            self.charges.append(payment)
        return 201, {"id": payment["key"]}

    def stop(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
