"""The blocking client."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar, Unpack

import httpx

from . import documents, flows, retries
from .documents import DocumentSource
from .errors import ProblemError
from .flows import Call, Fetch, Flow, Load, Options, Report, Sleep
from .generated.client import AuthenticatedClient, Client
from .generated.models import Event, Healing, Job, PageDetail
from .program import LocalServer
from .result import Result

T = TypeVar("T")

#: Seconds that one request may take.
REQUEST_TIMEOUT = 60.0


class BaseClient:
    """Where the server is, and how it is asked."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = REQUEST_TIMEOUT,
        httpx_args: dict[str, Any] | None = None,
    ):
        self._url = url or os.environ.get("EVERYPAGE_URL")
        self._key = key or os.environ.get("EVERYPAGE_KEY")
        self._timeout = httpx.Timeout(timeout)
        self._httpx_args = httpx_args or {}
        self._server: LocalServer | None = None
        self._api: Client | AuthenticatedClient | None = None

    def _connect(self) -> Client | AuthenticatedClient:
        """Starts a server where none is named."""
        if self._api is None:
            if self._url is None:
                self._server = LocalServer()
                self._url = self._server.url
            options = {
                "base_url": self._url.rstrip("/"),
                "timeout": self._timeout,
                # Large results are redirected to the storage; httpx leaves the key out there.
                "follow_redirects": True,
                "httpx_args": self._httpx_args,
            }
            self._api = AuthenticatedClient(token=self._key, **options) if self._key else Client(**options)
        return self._api

    def _stop_server(self) -> None:
        self._api = None
        if self._server:
            self._server.stop()
            self._server, self._url = None, None


class Everypage(BaseClient):
    """A client of an Everypage server.

    Without a `url` (or `EVERYPAGE_URL`) the first request starts `everypage serve` on this machine, which stops
    with `close()`, at the end of a `with` block, or with this process.
    """

    def read(
        self,
        source: DocumentSource,
        *,
        progress: Callable[[Job], Any] | None = None,
        timeout: float | None = None,
        **options: Unpack[Options],
    ) -> Result:
        """Reads a document: a path, a URL, bytes or an open file.

        `progress` is called with the job whenever its status, percentage or message changes. Raises `JobError` when
        the document can't be read, `ProblemError` when the server refuses it, and `WaitTimeout` after `timeout`
        seconds; the job then continues.
        """
        return self._run(flows.read(source, progress, timeout, options))

    def submit(self, source: DocumentSource, **options: Unpack[Options]) -> Job:
        """Submits a document, and does not wait for it."""
        return self._run(flows.submit(source, options))

    def wait(
        self, job_id: str, *, progress: Callable[[Job], Any] | None = None, timeout: float | None = None
    ) -> Job:
        """Waits until the job has ended, with whatever status."""
        return self._run(flows.wait(job_id, progress, timeout))

    def result(self, job_id: str, *, version: int | None = None, provisional: bool = False) -> Result:
        """The result; with `provisional`, the document as it stands while the job runs."""
        return self._run(flows.result(job_id, version, provisional))

    def download(
        self,
        job_id: str,
        format: str,
        *,
        version: int | None = None,
        provisional: bool = False,
        tables: str | None = None,
    ) -> bytes:
        """The result as a file of this format; `tables="html"` or `"auto"` for tables as HTML in Markdown and chunks."""
        return self._run(flows.download(job_id, format, version, provisional, tables))

    def text(self, job_id: str) -> str:
        return self.download(job_id, "text").decode()

    def markdown(self, job_id: str) -> str:
        return self.download(job_id, "markdown").decode()

    def job(self, job_id: str) -> Job:
        return self._run(flows.job(job_id))

    def jobs(self, *, status: str | None = None, search: str | None = None) -> Iterator[Job]:
        """The jobs, newest first."""
        cursor: str | None = None
        while True:
            items, cursor = self._run(flows.jobs_page(cursor, status, search))
            yield from items
            if not cursor:
                return

    def events(self, job_id: str) -> Iterator[Event]:
        """The audit trail of a job and its pages."""
        cursor: str | None = None
        while True:
            items, cursor = self._run(flows.events_page(job_id, cursor))
            yield from items
            if not cursor:
                return

    def page(self, job_id: str, number: int) -> PageDetail:
        """One page with its text and history."""
        return self._run(flows.page(job_id, number))

    def page_image(self, job_id: str, number: int) -> bytes:
        """The image of a page, JPEG or PNG."""
        return self._run(flows.page_image(job_id, number))

    def cancel(self, job_id: str) -> Job:
        return self._run(flows.cancel(job_id))

    def heal(self, job_id: str, *, deadline: str | float | None = None) -> Healing:
        """Sends the pages without a model's text to the models again."""
        return self._run(flows.heal(job_id, deadline))

    def delete(self, job_id: str) -> None:
        """Deletes a job that has ended, with its document, texts and results."""
        self._run(flows.delete(job_id))

    @property
    def api(self) -> Client | AuthenticatedClient:
        """The generated client, for every other route: `everypage.generated.api`."""
        return self._connect()

    def close(self) -> None:
        if self._api is not None:
            self._api.get_httpx_client().close()
        self._stop_server()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self, flow: Flow[T]) -> T:
        answer: Any = None
        try:
            while True:
                answer = self._do(flow.send(answer))
        except StopIteration as end:
            return end.value

    def _do(self, step: Any) -> Any:
        match step:
            case Call():
                api = self._connect()
                response = self._send(lambda: api.get_httpx_client().request(**step.request()))
                return response if step.raw else flows.parse(step, api, response)
            case Fetch():
                with httpx.Client(timeout=self._timeout, follow_redirects=True, **self._httpx_args) as other:
                    send = lambda: other.request(step.method, step.url, headers=step.headers, content=step.content)  # noqa: E731
                    return self._send(send).content
            case Load():
                return documents.load(step.source)
            case Sleep():
                time.sleep(step.seconds)
            case Report():
                step.callback(step.job)
        return None

    def _send(self, send: Callable[[], httpx.Response]) -> httpx.Response:
        tries = 0
        while True:
            tries += 1
            try:
                outcome: httpx.Response | httpx.TransportError = send()
            except httpx.TransportError as error:
                outcome = error
            pause = retries.delay(tries, outcome)
            if pause is not None:
                time.sleep(pause)
            elif isinstance(outcome, httpx.TransportError):
                raise outcome
            elif outcome.is_error:
                raise ProblemError.of(outcome)
            else:
                return outcome
