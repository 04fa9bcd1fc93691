"""The console as static files with the API on another origin, as on S3 and CloudFront."""

import functools
import http.server
import threading
import types

import pytest
from playwright.sync_api import expect

from everypage import ROOT
from steps import choose, is_now, tile

API = "https://api.example.org"


@pytest.fixture
def bucket():
    """A server with the static files only."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=ROOT / "console"))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield types.SimpleNamespace(url=f"http://127.0.0.1:{server.server_port}")
    server.shutdown()
    thread.join()
    server.server_close()


def test_config_json_sets_the_api_origin(tab, bucket, calm):
    opened = tab(bucket)
    opened.allowed_origins.append(API + "/")
    page = opened.page
    page.route(bucket.url + "/config.json", lambda route: route.fulfill(json={"api": API + "/"}))

    def gateway(route):
        """Acts as API Gateway: another origin, CORS, no streams."""
        request = route.request
        headers = {name: value for name, value in request.headers.items() if name not in ("origin", "referer")}
        response = route.fetch(url=request.url.replace(API, calm.url), headers=headers)
        allowed = {"access-control-allow-origin": bucket.url}
        if request.url == API + "/v1/me":
            return route.fulfill(response=response, headers=response.headers | allowed, json=response.json() | {"streams": False})
        return route.fulfill(response=response, headers=response.headers | allowed)

    page.route(API + "/**", gateway)
    opened.open()
    choose(page, 40)
    is_now(page, "Done")
    tile(page, 4).click()
    expect(page.get_by_alt_text("Image of page 4")).to_be_visible()
