"""Compression, ranges and CORS of the served program, seen from outside."""

import gzip

import httpx
from everypage import Everypage

ORIGIN = "https://app.example.com"


def test_text_is_compressed_and_images_and_streams_are_not(calm, sample):
    with Everypage(calm.url) as client:
        job = client.read(sample).job_id
    path = f"{calm.url}/v1/jobs/{job}"
    plain = httpx.get(f"{path}/result?format=json", headers={"accept-encoding": "identity"})
    assert "content-encoding" not in plain.headers and plain.headers["accept-ranges"] == "bytes"
    assert "accept-encoding" in plain.headers["vary"], plain.headers
    with httpx.stream("GET", f"{path}/result?format=json", headers={"accept-encoding": "gzip"}) as response:
        raw = b"".join(response.iter_raw())
    assert response.headers["content-encoding"] == "gzip" and len(raw) < len(plain.content) / 3
    assert gzip.decompress(raw) == plain.content
    vary = ",".join(response.headers.get_list("vary")).lower()
    assert all(name in vary for name in ("accept-encoding", "accept", "authorization"))
    # Compressed bytes are others than those that the strong tag names, so no part may be based on them.
    assert response.headers["etag"] == "W/" + plain.headers["etag"] and "accept-ranges" not in response.headers
    again = httpx.get(f"{path}/result?format=json", headers={"if-none-match": response.headers["etag"]})
    assert again.status_code == 304
    part = httpx.get(f"{path}/result?format=json", headers={"range": "bytes=10-19", "accept-encoding": "gzip"})
    assert (part.status_code, part.content) == (206, plain.content[10:20]) and "content-encoding" not in part.headers
    image = httpx.get(f"{path}/pages/4/image", headers={"accept-encoding": "gzip"})
    assert "content-encoding" not in image.headers and image.content.startswith(b"\xff\xd8")
    # The first event arrives before the stream ends.
    accept = {"accept": "text/event-stream", "accept-encoding": "gzip"}
    with httpx.stream("GET", f"{path}/events", headers=accept, timeout=10) as events:
        assert "content-encoding" not in events.headers
        assert next(events.iter_lines()).startswith(("event:", "id:", "data:", "retry:", ":"))


def test_pages_of_configured_origins_may_use_the_api(serve):
    server = serve(keys=["user"], CORS_ORIGINS=f"{ORIGIN}, http://localhost:3000")
    asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization,content-type"}
    preflight = httpx.options(f"{server.url}/v1/jobs", headers={"origin": ORIGIN} | asked)
    assert preflight.status_code == 200 and preflight.headers["access-control-allow-origin"] == ORIGIN
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    key = {"authorization": f"Bearer {server.keys[0]}"}
    allowed = httpx.get(f"{server.url}/v1/me", headers=key | {"origin": "http://localhost:3000"})
    assert allowed.headers["access-control-allow-origin"] == "http://localhost:3000"
    assert "etag" in allowed.headers["access-control-expose-headers"]
    assert "origin" in ",".join(allowed.headers.get_list("vary"))
    # A page can read why it was refused.
    refused = httpx.get(f"{server.url}/v1/me", headers={"origin": ORIGIN})
    assert refused.status_code == 401 and refused.headers["access-control-allow-origin"] == ORIGIN
    other = httpx.get(f"{server.url}/v1/me", headers=key | {"origin": "https://evil.example"})
    assert "access-control-allow-origin" not in other.headers
    assert "access-control-allow-credentials" not in allowed.headers


def test_no_origin_is_allowed_by_default(calm):
    answer = httpx.options(f"{calm.url}/v1/jobs", headers={"origin": ORIGIN, "access-control-request-method": "GET"})
    assert "access-control-allow-origin" not in answer.headers
