#!/usr/bin/env python3
"""Reads a PDF through the HTTP API of Everypage and prints the result:

    ./everypage serve &
    examples/read_pdf.py report.pdf > report.md
    examples/read_pdf.py report.pdf --format json --deadline 2m --url https://… --key ep_…

The key may also be in EVERYPAGE_KEY, the address in EVERYPAGE_URL. Needs no packages. What it shows: requests that
are safe to repeat, waiting as asked (Retry-After), problem documents, uploads for documents that are too large for a
request body on AWS, and pages that fell back to their own text.

Exit code 0: every page has the text that was planned for it. 3: some page fell back. 1: the job has no result.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

ENDED = {"success", "failed", "rejected", "cancelled"}
# A request body on AWS may have about 4.5 MB; larger documents are uploaded to the bucket.
MAX_BODY_BYTES = 4_000_000
MAX_TRIES = 6


class Everypage:
    def __init__(self, url: str, key: str | None):
        self.url, self.key = url.rstrip("/"), key

    def request(self, method: str, path: str, body: bytes | None = None, headers: dict | None = None) -> bytes:
        """One call, retried when the service is busy. Every call here is safe to repeat."""
        for attempt in range(1, MAX_TRIES + 1):
            request = urllib.request.Request(self.url + path, data=body, method=method, headers=headers or {})
            if self.key:
                # Not sent along a redirect: a large result is one into the bucket, which has a signature of its own.
                request.add_unredirected_header("Authorization", f"Bearer {self.key}")
            try:
                with urllib.request.urlopen(request, timeout=60) as response:
                    return response.read()
            except urllib.error.HTTPError as error:
                if error.code not in (429, 502, 503, 504) or attempt == MAX_TRIES:
                    raise SystemExit(f"{method} {path}: {problem(error)}")
                time.sleep(float(error.headers.get("Retry-After") or attempt))
            except urllib.error.URLError as error:
                if attempt == MAX_TRIES:
                    raise SystemExit(f"{self.url} can't be reached: {error.reason}")
                time.sleep(attempt)
        raise AssertionError("the last try returns or exits")

    def get(self, path: str) -> dict:
        return json.loads(self.request("GET", path))

    def submit(self, file: pathlib.Path, options: dict, force: bool) -> str:
        """The job's id. The same file with the same options within 24 hours is the same job."""
        content = file.read_bytes()
        options = {"name": file.name, **options}
        # A key of its own makes a new job, and only one, however often this request is retried.
        headers = {"Idempotency-Key": str(uuid.uuid4())} if force else {}
        if len(content) > MAX_BODY_BYTES and self.get("/v1/me")["uploads"]:
            body = json.dumps({**options, "upload": True}).encode()
            job = json.loads(self.request("POST", "/v1/jobs", body, {**headers, "Content-Type": "application/json"}))
            link = job["upload"]
            upload = urllib.request.Request(link["url"], data=content, method=link["method"], headers=link["headers"])
            with urllib.request.urlopen(upload, timeout=600):
                pass
            return job["id"]
        query = urllib.parse.urlencode(options)
        headers["Content-Type"] = "application/pdf"
        return json.loads(self.request("POST", f"/v1/jobs?{query}", content, headers))["id"]

    def wait(self, job_id: str, interval: float = 1.0) -> dict:
        """The job once it has ended. The service keeps the deadline, so this ends too."""
        while True:
            job = self.get(f"/v1/jobs/{job_id}")
            progress = job.get("progress")
            print(f"{job['status']} {'' if progress is None else f'{progress} %'}: {job['message']}", file=sys.stderr)
            if job["status"] in ENDED:
                return job
            time.sleep(interval)


def problem(error: urllib.error.HTTPError) -> str:
    """What an RFC 9457 problem document says; API Gateway's own errors have only a message."""
    try:
        body = json.loads(error.read())
    except ValueError:
        return f"HTTP {error.code}"
    faults = "".join(f"; {fault['name']}: {fault['message']}" for fault in body.get("errors", []))
    return f"HTTP {error.code} {body.get('code', '')} {body.get('detail') or body.get('message', '')}{faults}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("file", type=pathlib.Path)
    options.add_argument("--url", default=os.environ.get("EVERYPAGE_URL", "http://127.0.0.1:8080"))
    options.add_argument("--key", default=os.environ.get("EVERYPAGE_KEY"))
    options.add_argument("--format", default="markdown", choices=["text", "markdown", "json"])
    options.add_argument("--pages", help="such as 1-10,12,40-")
    options.add_argument("--deadline", help="such as 5m")
    options.add_argument("--provider", help="called first, such as openai or gemini")
    options.add_argument("--force", action="store_true", help="a new job even if the same was submitted before")
    given = options.parse_args()

    wanted = {name: getattr(given, name) for name in ("pages", "deadline", "provider") if getattr(given, name)}
    service = Everypage(given.url, given.key)
    job = service.wait(service.submit(given.file, wanted, given.force))
    if not job.get("result"):
        reason = (job.get("error") or {}).get("reason", "no result")
        raise SystemExit(f"{given.file}: {job['status']}: {reason}")

    sys.stdout.buffer.write(service.request("GET", f"/v1/jobs/{job['id']}/result?format={given.format}"))
    metadata = job["result"]["metadata"]
    fell_back, missing = metadata["pages_failed"], metadata["missing_page_numbers"]
    print(f"{metadata['total_pages']} pages, {fell_back} fell back, no text on {missing or 'none'}", file=sys.stderr)
    sys.exit(3 if fell_back or missing else 0)


if __name__ == "__main__":
    main()
