"""What the client does, without input and output: generators that yield requests and are sent the answers.

`client.py` runs them with threads' blocking calls, `async_client.py` with asyncio.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import inspect
import json
import time
import types
import typing
import uuid
from collections.abc import Callable, Generator
from typing import Any, Literal, TypedDict, TypeVar

from . import documents
from .documents import Document, DocumentSource
from .errors import JobError, WaitTimeout
from .generated.api.jobs import (
    cancel_job,
    delete_job,
    get_job,
    get_job_page,
    get_job_page_image,
    get_job_result,
    heal_job,
    list_job_events,
    list_jobs,
    submit_job,
)
from .generated.api.service import get_me
from .generated.models import Event, Healing, HealRequest, Job, JobForm, PageDetail, Status, UploadRequest
from .generated.types import UNSET, File
from .result import Result, plain

T = TypeVar("T")
Flow = Generator[Any, Any, T]

#: Statuses of a job that has ended.
ENDED = frozenset({Status.SUCCESS, Status.FAILED, Status.REJECTED, Status.CANCELLED})

#: A service with upload links (AWS) takes larger documents only through them.
MAX_BODY = 4_000_000

#: The server looks at the document itself.
BYTES = "application/octet-stream"

#: The first pause between two looks at a job, and the longest.
FIRST_PAUSE = 0.1
MAX_PAUSE = 2.0


class Options(TypedDict, total=False):
    """The options of a job; what is left out is the tenant's setting. New ones of the server work too."""

    name: str
    """The name of the document."""
    password: str
    """Opens an encrypted document."""
    pages: str
    """Pages to read, such as `1-10,12,40-`."""
    ai_pages: str
    """Pages that go to AI."""
    tier: Literal["primary", "fast", "secondary"]
    """The model that is called first."""
    provider: str
    """The provider that is called first."""
    failover: str
    """The models in the order in which they are called, such as `openai:gpt-5.4,gemini:gemini-3.8-flash`."""
    cost: Literal["standard", "low"]
    """`low` for the cheaper, slower tier of providers that have one, while the time left allows."""
    budget_usd: str | float
    """What the job's model calls may cost, in US dollars; pages beyond it keep their own text."""
    deadline: str | float | datetime.timedelta
    """When the result is published at the latest: a time such as `5m`, or seconds."""
    patience: str | float | datetime.timedelta
    """How long a page is retried: `deadline`, a time, or `0` for one round."""
    priority: Literal["low", "normal", "high", "critical", "urgent"]
    force: bool
    """Start a new job even if the same document was submitted with the same options within 24 hours."""
    idempotency_key: str
    """Identifies the request: the same key gives the same job."""


@dataclasses.dataclass(frozen=True)
class Call:
    """A request of the API; the answer is the parsed body, or the response itself."""

    operation: types.ModuleType
    arguments: dict[str, Any]
    raw: bool = False
    #: Of a body of bytes: the generated code takes one of those that the route accepts.
    content_type: str | None = None

    def request(self) -> dict[str, Any]:
        """The arguments of `httpx.Client.request`."""
        made = self.operation._get_kwargs(**self.arguments)
        if self.content_type:
            made["headers"]["Content-Type"] = self.content_type
        return made


@dataclasses.dataclass(frozen=True)
class Fetch:
    """A request to another address, without the key; the answer is the body."""

    method: str
    url: str
    headers: dict[str, str]
    content: bytes | None = None


@dataclasses.dataclass(frozen=True)
class Load:
    """A document that is not at a URL."""

    source: DocumentSource


@dataclasses.dataclass(frozen=True)
class Sleep:
    seconds: float


@dataclasses.dataclass(frozen=True)
class Report:
    """Reports the progress of a job to the caller."""

    callback: Callable[[Job], Any]
    job: Job


def open_document(source: DocumentSource) -> Flow[Document]:
    if documents.is_url(source):
        content = yield Fetch("GET", source, {})
        return Document(documents.name_of_url(source), content)
    return (yield Load(source))


def submit(source: DocumentSource, options: Options) -> Flow[Job]:
    document = yield from open_document(source)
    arguments = to_arguments({"name": document.name, **options})
    password = arguments.pop("password", UNSET)
    if arguments.pop("force", False) and "idempotency_key" not in arguments:
        # A new job, and still one only when the request is repeated.
        arguments["idempotency_key"] = str(uuid.uuid4())
    if len(document.content) > MAX_BODY and (yield Call(get_me, {})).uploads:
        return (yield from upload(document, arguments, password))
    # Bytes and no open file, so that the request can be repeated.
    payload = File(document.content, document.name, BYTES)
    if password is UNSET:
        return (yield Call(submit_job, {**arguments, "body": payload}, content_type=BYTES))
    # A form takes a password of any characters, a header does not.
    return (yield Call(submit_job, {**arguments, "body": JobForm(file=payload, password=password)}))


def upload(document: Document, arguments: dict[str, Any], password: Any) -> Flow[Job]:
    """Sends the document to the storage, by a link that the service gives."""
    job = yield Call(submit_job, {**arguments, "body": UploadRequest(upload=True, password=password)})
    if job.upload:
        headers = dict(job.upload.headers.additional_properties)
        yield Fetch(job.upload.method, job.upload.url, headers, document.content)
    return job


def wait(job_id: str, progress: Callable[[Job], Any] | None, timeout: float | None) -> Flow[Job]:
    started, pause, seen = time.monotonic(), FIRST_PAUSE, None
    while True:
        job = yield Call(get_job, {"id": job_id})
        if progress and (job.status, job.progress, job.message) != seen:
            seen = (job.status, job.progress, job.message)
            yield Report(progress, job)
        if job.status in ENDED:
            return job
        if timeout is not None and time.monotonic() - started >= timeout:
            raise WaitTimeout(job, timeout)
        yield Sleep(pause)
        pause = min(pause * 1.5, MAX_PAUSE)


def read(
    source: DocumentSource, progress: Callable[[Job], Any] | None, timeout: float | None, options: Options
) -> Flow[Result]:
    submitted = yield from submit(source, options)
    job = yield from wait(submitted.id, progress, timeout)
    if job.status is not Status.SUCCESS:
        raise JobError(job)
    return (yield from result(job.id))


def result(job_id: str, version: int | None = None, provisional: bool = False) -> Flow[Result]:
    return Result.parse(json.loads((yield from download(job_id, "json", version, provisional))))


def download(
    job_id: str, format: str, version: int | None = None, provisional: bool = False, tables: str | None = None
) -> Flow[bytes]:
    arguments = {
        "id": job_id,
        "format_": format,
        "tables": tables,
        "version": version,
        "provisional": provisional or None,
    }
    response = yield Call(get_job_result, given(arguments, get_job_result), raw=True)
    return response.content


def job(job_id: str) -> Flow[Job]:
    return (yield Call(get_job, {"id": job_id}))


def page(job_id: str, number: int) -> Flow[PageDetail]:
    return (yield Call(get_job_page, {"id": job_id, "page": number}))


def page_image(job_id: str, number: int) -> Flow[bytes]:
    return (yield Call(get_job_page_image, {"id": job_id, "page": number}, raw=True)).content


def cancel(job_id: str) -> Flow[Job]:
    return (yield Call(cancel_job, {"id": job_id}))


def heal(job_id: str, deadline: str | float | datetime.timedelta | None) -> Flow[Healing]:
    body = HealRequest() if deadline is None else HealRequest(deadline=to_text(deadline))
    return (yield Call(heal_job, {"id": job_id, "body": body}))


def delete(job_id: str) -> Flow[None]:
    yield Call(delete_job, {"id": job_id}, raw=True)


def jobs_page(cursor: str | None, status: str | None, search: str | None) -> Flow[tuple[list[Job], str | None]]:
    arguments = given({"cursor": cursor, "status": status, "search": search}, list_jobs)
    found = yield Call(list_jobs, arguments)
    return found.items, found.next_


def events_page(job_id: str, cursor: str | None) -> Flow[tuple[list[Event], str | None]]:
    found = yield Call(list_job_events, given({"id": job_id, "cursor": cursor}, list_job_events))
    return found.items, found.next_


def to_arguments(options: Options | dict[str, Any]) -> dict[str, Any]:
    """The options as the generated function takes them."""
    password = options.get("password")
    options = {name: value for name, value in options.items() if name != "password" and value is not None}
    for name in ("deadline", "patience"):
        if name in options:
            options[name] = to_text(options[name])
    if "budget_usd" in options:
        options["budget_usd"] = str(options["budget_usd"])
    arguments = given(options, submit_job)
    return arguments if password is None else {**arguments, "password": password}


def to_text(time: str | float | datetime.timedelta) -> str:
    """A time with its unit; numbers are seconds."""
    if isinstance(time, str):
        return time
    seconds = time.total_seconds() if isinstance(time, datetime.timedelta) else float(time)
    return f"{round(seconds * 1000)}ms"


def given(arguments: dict[str, Any], operation: types.ModuleType) -> dict[str, Any]:
    """Leaves out what is None, and turns names into the enums of the generated function."""
    parameters = inspect.signature(operation._get_kwargs).parameters
    known = {}
    for name, value in arguments.items():
        if name not in parameters:
            accepted = ", ".join(sorted(set(parameters) - {"body", "traceparent", "everypage_password"} | {"password"}))
            raise TypeError(f"unknown option {name!r} (accepted: {accepted})")
        if value is not None:
            known[name] = to_enum(name, value, parameters[name].annotation)
    return known


def to_enum(name: str, value: Any, annotation: Any) -> Any:
    for kind in typing.get_args(annotation):
        if isinstance(kind, type) and issubclass(kind, enum.Enum) and not isinstance(value, kind):
            try:
                return kind(value)
            except ValueError:
                accepted = ", ".join(member.value for member in kind)
                raise ValueError(f"{name}: unknown value {value!r} (accepted: {accepted})") from None
    return value


def parse(call: Call, client: Any, response: Any) -> Any:
    return plain(call.operation._parse_response(client=client, response=response))
