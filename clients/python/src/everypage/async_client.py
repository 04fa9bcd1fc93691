"""The client for asyncio."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Self, TypeVar, Unpack

import httpx

from . import documents, flows, retries
from .client import BaseClient
from .documents import DocumentSource
from .errors import ProblemError
from .flows import Call, Fetch, Flow, Load, Options, Report, Sleep
from .generated.client import AuthenticatedClient, Client
from .generated.models import Event, Healing, Job, PageDetail
from .result import Result

T = TypeVar("T")


class AsyncEverypage(BaseClient):
    """As `Everypage`, with coroutines. A `progress` callback may be one too."""

    async def read(
        self,
        source: DocumentSource,
        *,
        progress: Callable[[Job], Any] | None = None,
        timeout: float | None = None,
        **options: Unpack[Options],
    ) -> Result:
        """Reads a document: a path, a URL, bytes or an open file."""
        return await self._run(flows.read(source, progress, timeout, options))

    async def submit(self, source: DocumentSource, **options: Unpack[Options]) -> Job:
        """Submits a document, and does not wait for it."""
        return await self._run(flows.submit(source, options))

    async def wait(
        self, job_id: str, *, progress: Callable[[Job], Any] | None = None, timeout: float | None = None
    ) -> Job:
        """Waits until the job has ended, with whatever status."""
        return await self._run(flows.wait(job_id, progress, timeout))

    async def result(self, job_id: str, *, version: int | None = None, provisional: bool = False) -> Result:
        """The result; with `provisional`, the document as it stands while the job runs."""
        return await self._run(flows.result(job_id, version, provisional))

    async def download(
        self,
        job_id: str,
        format: str,
        *,
        version: int | None = None,
        provisional: bool = False,
        tables: str | None = None,
    ) -> bytes:
        """The result as a file of this format; `tables="html"` or `"auto"` for tables as HTML in Markdown and chunks."""
        return await self._run(flows.download(job_id, format, version, provisional, tables))

    async def text(self, job_id: str) -> str:
        return (await self.download(job_id, "text")).decode()

    async def markdown(self, job_id: str) -> str:
        return (await self.download(job_id, "markdown")).decode()

    async def job(self, job_id: str) -> Job:
        return await self._run(flows.job(job_id))

    async def jobs(self, *, status: str | None = None, search: str | None = None) -> AsyncIterator[Job]:
        """The jobs, newest first."""
        cursor: str | None = None
        while True:
            items, cursor = await self._run(flows.jobs_page(cursor, status, search))
            for item in items:
                yield item
            if not cursor:
                return

    async def events(self, job_id: str) -> AsyncIterator[Event]:
        """The audit trail of a job and its pages."""
        cursor: str | None = None
        while True:
            items, cursor = await self._run(flows.events_page(job_id, cursor))
            for item in items:
                yield item
            if not cursor:
                return

    async def page(self, job_id: str, number: int) -> PageDetail:
        """One page with its text and history."""
        return await self._run(flows.page(job_id, number))

    async def page_image(self, job_id: str, number: int) -> bytes:
        """The image of a page, JPEG or PNG."""
        return await self._run(flows.page_image(job_id, number))

    async def cancel(self, job_id: str) -> Job:
        return await self._run(flows.cancel(job_id))

    async def heal(self, job_id: str, *, deadline: str | float | None = None) -> Healing:
        """Sends the pages without a model's text to the models again."""
        return await self._run(flows.heal(job_id, deadline))

    async def delete(self, job_id: str) -> None:
        """Deletes a job that has ended, with its document, texts and results."""
        await self._run(flows.delete(job_id))

    async def api(self) -> Client | AuthenticatedClient:
        """The generated client, for every other route: `everypage.generated.api`."""
        return await asyncio.to_thread(self._connect)

    async def close(self) -> None:
        if self._api is not None:
            await self._api.get_async_httpx_client().aclose()
        await asyncio.to_thread(self._stop_server)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _run(self, flow: Flow[T]) -> T:
        answer: Any = None
        try:
            while True:
                answer = await self._do(flow.send(answer))
        except StopIteration as end:
            return end.value

    async def _do(self, step: Any) -> Any:
        match step:
            case Call():
                api = await self.api()
                client = api.get_async_httpx_client()
                response = await self._send(lambda: client.request(**step.request()))
                return response if step.raw else flows.parse(step, api, response)
            case Fetch():
                async with httpx.AsyncClient(timeout=self._timeout, follow_redirects=True, **self._httpx_args) as other:
                    send = lambda: other.request(step.method, step.url, headers=step.headers, content=step.content)  # noqa: E731
                    return (await self._send(send)).content
            case Load():
                return await asyncio.to_thread(documents.load, step.source)
            case Sleep():
                await asyncio.sleep(step.seconds)
            case Report():
                returned = step.callback(step.job)
                if inspect.isawaitable(returned):
                    await returned
        return None

    async def _send(self, send: Callable[[], Awaitable[httpx.Response]]) -> httpx.Response:
        tries = 0
        while True:
            tries += 1
            try:
                outcome: httpx.Response | httpx.TransportError = await send()
            except httpx.TransportError as error:
                outcome = error
            pause = retries.delay(tries, outcome)
            if pause is not None:
                await asyncio.sleep(pause)
            elif isinstance(outcome, httpx.TransportError):
                raise outcome
            elif outcome.is_error:
                raise ProblemError.of(outcome)
            else:
                return outcome

