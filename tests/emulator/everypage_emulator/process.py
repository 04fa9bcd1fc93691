"""One process of a function, and the Runtime API from which it gets its invocations.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
"""

import http.server
import json
import os
import pathlib
import queue
import signal
import subprocess
import threading
import time
import typing

API = "/2018-06-01/runtime/"


class Ended(typing.NamedTuple):
    """How an invocation ended: its response, or its error in the words of the function or of Lambda."""

    body: bytes
    failed: bool


def failure(kind: str, request: str, what: str) -> Ended:
    """An error reported by Lambda instead of the function, in the words of AWS."""
    error = {"errorType": kind, "errorMessage": f"RequestId: {request} Error: {what}"}
    return Ended(json.dumps(error).encode(), failed=True)


class Process:
    """Runs one invocation at a time. After the end of the process it is not started again."""

    def __init__(self, code: pathlib.Path, environment: dict[str, str], folder: pathlib.Path, log: typing.IO):
        self.work: queue.Queue = queue.Queue()
        self.outcome: queue.Queue = queue.Queue()
        self.api = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.api.daemon_threads = True
        threading.Thread(target=self.api.serve_forever, daemon=True).start()
        environment = environment | {"AWS_LAMBDA_RUNTIME_API": f"127.0.0.1:{self.api.server_port}"}
        # A process group of its own, so that its children end with it, as in an execution environment.
        self.process = subprocess.Popen(
            [code / "bootstrap"], cwd=code, env=environment, stdin=subprocess.DEVNULL,
            stdout=log, stderr=log, start_new_session=True,
        )
        self.mark = folder / str(self.process.pid)
        self.mark.touch()
        threading.Thread(target=self._watch, daemon=True).start()

    def invoke(self, request: str, arn: str, trace: str, payload: bytes, timeout: int) -> Ended:
        deadline = int((time.time() + timeout) * 1000)
        headers = {
            "Lambda-Runtime-Aws-Request-Id": request,
            "Lambda-Runtime-Deadline-Ms": str(deadline),
            "Lambda-Runtime-Invoked-Function-Arn": arn,
            "Lambda-Runtime-Trace-Id": trace,
            "Content-Type": "application/json",
        }
        self.work.put((headers, payload))
        try:
            outcome = self.outcome.get(timeout=timeout)
        except queue.Empty:
            self.kill()
            # Until it has ended it looks alive, and would get the next invocation.
            self.process.wait()
            return failure("Sandbox.Timedout", request, f"Task timed out after {timeout:.2f} seconds")
        if isinstance(outcome, Ended):
            return outcome
        how = f"exit status {outcome}" if outcome >= 0 else f"signal: {signal.strsignal(-outcome).lower()}"
        return failure("Runtime.ExitError", request, f"Runtime exited with error: {how}")

    def alive(self) -> bool:
        return self.process.poll() is None

    def kill(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _watch(self) -> None:
        status = self.process.wait()
        self.kill()
        self.mark.unlink(missing_ok=True)
        self.outcome.put(status)
        self.work.put(None)
        self.api.shutdown()
        self.api.server_close()

    def _handler(self):
        process = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Headers and body are two writes; without this the second waits for the acknowledgement of the first.
            disable_nagle_algorithm = True

            def do_GET(self):
                if self.path != API + "invocation/next":
                    return self.answer(404)
                work = process.work.get()
                if work is None:  # the process ended while it waited
                    return
                self.answer(200, *work)

            def do_POST(self):
                body = self.body()
                # `init/error` included: a process that fails at its start reports nothing else.
                if self.path.endswith(("/response", "/error")):
                    process.outcome.put(Ended(body, failed=self.path.endswith("/error")))
                    self.answer(202, body=b'{"status":"OK"}')
                else:
                    self.answer(404)

            def body(self) -> bytes:
                if "chunked" not in self.headers.get("Transfer-Encoding", ""):
                    return self.rfile.read(int(self.headers.get("Content-Length", 0)))
                parts = []
                while size := int(self.rfile.readline().split(b";")[0], 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                while self.rfile.readline().strip():
                    pass
                return b"".join(parts)

            def answer(self, status: int, headers: dict[str, str] = {}, body: bytes = b""):
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        return Handler
