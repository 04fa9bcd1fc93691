"""What can go wrong, as exceptions. All of them are an `EverypageError`."""

from __future__ import annotations

import dataclasses
import json

import httpx

from .generated.models import Job


class EverypageError(Exception):
    """Something that Everypage reports."""


@dataclasses.dataclass(frozen=True)
class FieldError:
    """One option or parameter that is not valid."""

    name: str
    message: str


class ProblemError(EverypageError):
    """The server refused a request: the fields of its problem document (RFC 9457)."""

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        code: str | None = None,
        type: str | None = None,
        errors: tuple[FieldError, ...] = (),
        retry_after: float | None = None,
    ):
        super().__init__(f"{title}: {detail}" if detail else title)
        self.status = status
        self.title = title
        self.detail = detail
        #: The kind of problem, for programs; `None` where something in front of the server refused.
        self.code = code
        self.type = type
        #: Every option that is not valid.
        self.errors = errors
        #: Seconds after which the request may be repeated.
        self.retry_after = retry_after

    @classmethod
    def of(cls, response: httpx.Response) -> ProblemError:
        """A gateway or proxy may answer with anything."""
        try:
            body = json.loads(response.content)
        except ValueError:
            body = {}
        if not isinstance(body, dict):
            body = {}
        wrong = body.get("errors")
        return cls(
            status=response.status_code,
            title=body.get("title") or f"HTTP {response.status_code} {response.reason_phrase}",
            detail=body.get("detail") or body.get("message") or "",
            code=body.get("code"),
            type=body.get("type"),
            errors=tuple(FieldError(one["name"], one["message"]) for one in wrong) if isinstance(wrong, list) else (),
            retry_after=retry_after(response),
        )


def retry_after(response: httpx.Response) -> float | None:
    """`Retry-After` in seconds; a date is not understood."""
    try:
        return float(response.headers["retry-after"])
    except (KeyError, ValueError):
        return None


class JobError(EverypageError):
    """The job ended without success: it failed, was rejected or was cancelled."""

    def __init__(self, job: Job):
        super().__init__(f"{job.document.name}: {job.status.value}: {job.message}")
        self.job = job
        #: The kind of failure, for programs, such as `password_needed`.
        self.code = job.error.code if job.error else None
        #: What happened, in words.
        self.reason = job.error.reason if job.error else job.message


class WaitTimeout(EverypageError, TimeoutError):
    """The job has not ended within the time that the caller waits. It continues."""

    def __init__(self, job: Job, timeout: float):
        super().__init__(f"{job.document.name}: not finished after {timeout:g} s: {job.message}; job {job.id} continues")
        self.job = job


class ProgramError(EverypageError):
    """The program `everypage` is not installed, or its server did not start."""
