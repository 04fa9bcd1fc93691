#!/usr/bin/env python3
"""Receives Everypage's webhooks and verifies them (Standard Webhooks):

    everypage webhook set http://127.0.0.1:9000/    # prints the secret; this address needs WEBHOOK_ALLOW_PRIVATE=true
    WEBHOOK_SECRET=whsec_… examples/webhook_receiver.py

A message is sent again until it is answered with 2xx, and may come more than once: keep its id. Answer quickly (the
timeout is 10 s) and do the work afterwards. Needs no packages; put TLS in front of it.
"""

import base64
import hashlib
import hmac
import http.server
import json
import os
import time

SECRET = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_"))
MAX_AGE_SECONDS = 300
seen = set()  # In a real receiver: a table, with the id as its key.


def is_genuine(headers, body: bytes) -> bool:
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    expected = "v1," + base64.b64encode(hmac.new(SECRET, signed, hashlib.sha256).digest()).decode()
    signatures = (headers["webhook-signature"] or "").split()
    is_fresh = abs(time.time() - int(headers["webhook-timestamp"] or 0)) < MAX_AGE_SECONDS
    return is_fresh and any(hmac.compare_digest(expected, signature) for signature in signatures)


class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"] or 0))
        if not is_genuine(self.headers, body):
            return self.send_error(401)
        if self.headers["webhook-id"] not in seen:
            seen.add(self.headers["webhook-id"])
            message = json.loads(body)
            job = message["data"]
            print(message["type"], job["id"], job["result"] and job["result"]["href"], flush=True)
        self.send_response(204)
        self.end_headers()


if __name__ == "__main__":
    http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("PORT", "9000"))), Receiver).serve_forever()
