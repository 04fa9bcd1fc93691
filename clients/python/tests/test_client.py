import asyncio
import datetime
import http.server
import io
import os
import threading
import time

import httpx
import pytest
from everypage import (
    AsyncEverypage,
    BlockKind,
    Everypage,
    JobError,
    ProblemError,
    ProgramError,
    Source,
    Status,
    WaitTimeout,
    flows,
    retries,
)
from everypage.documents import Document
from everypage.generated.api.operation import list_breakers
from everypage.generated.api.service import get_me
from everypage.generated.models import Job, UploadRequest

GRAPHICS_PAGES = [4, 5, 9, 10]


@pytest.fixture
def client(calm):
    with Everypage(calm.url) as client:
        yield client


def test_a_document_is_read_with_typed_pages_and_progress(client, sample):
    seen = []
    result = client.read(sample, progress=seen.append)
    assert [page.page for page in result.pages] == list(range(1, 13))
    assert [page.page for page in result.pages if page.source is Source.AI] == GRAPHICS_PAGES
    assert result.is_complete and result.fallback_pages == []
    assert result.metadata.total_pages == 12 and result.version == 1
    first = result.pages[0]
    # What is absent in the JSON is None, and no marker of the generated code.
    assert first.provider is None and first.waiting is None and 0 < first.confidence <= 1
    assert result.pages[3].blocks == [] and result.pages[3].calls[0].result.value == "answered"
    kinds = {block.kind for page in result.pages for block in page.blocks}
    assert {BlockKind.HEADING, BlockKind.PARAGRAPH} <= kinds
    assert all(len(block.box) == 4 for page in result.pages for block in page.blocks)
    assert isinstance(result.document.created_at, datetime.datetime)
    assert str(result) == result.text and result.pages[1].text in result.text
    assert seen[-1].status is Status.SUCCESS and seen[-1].progress == 100
    # The same document is not read twice.
    assert client.read(sample).job_id == result.job_id
    assert client.read(sample, force=True).job_id != result.job_id
    assert client.text(result.job_id).startswith("=== Page 1 ===\n")
    # Page 2 has a table.
    with_html = client.download(result.job_id, "markdown", tables="html").decode()
    assert "<table>" in with_html and "<table>" not in client.markdown(result.job_id)
    assert "#page-1" in client.markdown(result.job_id) or 'id="page-1"' in client.markdown(result.job_id)


def test_bytes_files_and_urls_are_documents(client, variant, tmp_path):
    with pytest.raises(ValueError, match="s3://bucket/a.pdf"):
        client.submit("s3://bucket/a.pdf")
    with pytest.raises(FileNotFoundError):
        client.submit("missing.pdf")
    with pytest.raises(TypeError, match="rb"):
        client.submit(io.StringIO("text"))
    with pytest.raises(TypeError, match="not int"):
        client.submit(7)
    assert client.submit(variant(1), pages="1").document.name == "document.pdf"
    path = tmp_path / "report é.pdf"
    path.write_bytes(variant(2))
    with path.open("rb") as file:
        assert client.submit(file, pages="1").document.name == "report é.pdf"
    (tmp_path / "far.pdf").write_bytes(variant(3))
    with web_server(tmp_path) as address:
        job = client.submit(f"{address}/far.pdf?key=1", pages="1")
        with pytest.raises(ProblemError) as caught:
            client.submit(f"{address}/missing.pdf")
    assert job.document.name == "far.pdf" and job.document.bytes_ == len(variant(3))
    assert caught.value.status == 404
    names = {job.document.name for job in client.jobs(search="far")}
    assert names == {"far.pdf"}


class web_server:
    def __init__(self, folder):
        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=folder)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_port}"

    def __exit__(self, *_):
        self.server.shutdown()


def test_options_are_sent_and_refused_with_every_field(client, variant):
    deadline = datetime.timedelta(seconds=90)
    job = client.submit(variant(4), pages="2-3", tier="fast", priority="high", deadline=deadline, name="a.pdf")
    assert (job.options.pages, job.options.tier.value, job.options.priority.value) == ("2-3", "fast", "high")
    assert job.options.deadline == "1m 30s" and job.document.name == "a.pdf"
    job = client.submit(variant(4), pages="2-3", cost="low", budget_usd=1.5, failover="openai:gpt-5.4", patience=30)
    assert (job.options.cost.value, job.options.budget_usd, job.options.patience) == ("low", 1.5, "30s")
    assert job.options.failover == "openai:gpt-5.4"
    with pytest.raises(ProblemError) as caught:
        client.submit(variant(5), pages="0", deadline="soon")
    problem = caught.value
    assert (problem.status, problem.code) == (422, "bad_options")
    assert problem.type == "urn:problem:everypage:bad_options" and "soon" in problem.detail
    assert sorted(error.name for error in problem.errors) == ["deadline", "pages"]
    with pytest.raises(ValueError, match="accepted: fast, primary, secondary"):
        client.submit(variant(5), tier="best")
    with pytest.raises(TypeError, match="unknown option 'colour'"):
        client.submit(variant(5), colour="red")


def test_a_document_that_cannot_be_read_is_an_error_with_its_reason(client, sample):
    with pytest.raises(JobError) as caught:
        client.read(b"no document")
    assert caught.value.code and caught.value.reason and caught.value.job.status is Status.FAILED
    encrypted = sample.parent / "encrypted.pdf"
    with pytest.raises(JobError, match="password"):
        client.read(encrypted)
    with pytest.raises(JobError, match="password"):
        client.read(encrypted, password="wrong é")
    with pytest.raises(ProblemError) as caught:
        client.result("unknown")
    assert caught.value.code == "unknown_job"


def test_a_job_is_watched_cancelled_and_deleted(serve, sample):
    server = serve("hang")
    with Everypage(server.url) as client:
        job = client.submit(sample)
        with pytest.raises(WaitTimeout) as caught:
            client.wait(job.id, timeout=0.3)
        assert caught.value.job.id == job.id
        with pytest.raises(ProblemError) as caught:
            client.result(job.id)
        assert caught.value.code == "result_not_ready" and caught.value.retry_after == 2
        so_far = client.result(job.id, provisional=True)
        assert so_far.document.provisional and len(so_far.pages) == 12
        with pytest.raises(JobError) as caught:
            threading.Timer(0.2, client.cancel, [job.id]).start()
            client.read(sample)
        assert caught.value.job.status is Status.CANCELLED
        assert "job.cancelled" in {event.type_ for event in client.events(job.id)}
        client.delete(job.id)
        assert list(client.jobs()) == []


def test_fallbacks_are_seen_and_healed(serve, sample):
    # Every model refuses the page once.
    server = serve("page=4;first=4=400")
    with Everypage(server.url) as client:
        result = client.read(sample)
        assert result.fallback_pages == [4] and not result.is_complete
        assert result.pages[3].source is Source.MUPDF_FALLBACK and result.pages[3].fallback_reason
        assert client.heal(result.job_id, deadline=30).sent == [4]
        for _ in range(100):
            if client.job(result.job_id).result.version == 2:
                break
            time.sleep(0.1)
        healed = client.result(result.job_id)
        assert healed.version == 2 and healed.is_complete
        assert client.result(result.job_id, version=1).fallback_pages == [4]


def test_a_page_has_its_history_and_its_image(client, sample):
    result = client.read(sample)
    page = client.page(result.job_id, 4)
    assert page.settlements[0].source is Source.AI and page.mupdf_text is not None
    assert client.page_image(result.job_id, 4).startswith(b"\xff\xd8")


def test_a_key_is_sent_and_every_other_route_is_in_the_generated_client(serve, sample):
    server = serve(keys=["operator"])
    with pytest.raises(ProblemError) as caught:
        Everypage(server.url).job("x")
    assert (caught.value.status, caught.value.code) == (401, "unauthenticated")
    with Everypage(server.url, server.keys[0]) as client:
        assert get_me.sync(client=client.api).role.value == "operator"
        assert list_breakers.sync(client=client.api).items == []


def test_the_program_is_started_where_no_server_is_named(monkeypatch, tmp_path, sample):
    monkeypatch.setenv("EVERYPAGE_DATA", str(tmp_path))
    monkeypatch.delenv("EVERYPAGE_URL", raising=False)
    monkeypatch.setenv("EVERYPAGE_PROGRAM", os.environ["EVERYPAGE_BINARY"])
    with Everypage() as client:
        result = client.read(sample, pages="1-3")
        process = client._server._process
        assert [page.source for page in result.pages] == [Source.MUPDF] * 3
    assert process.returncode == 0
    monkeypatch.setenv("EVERYPAGE_PROGRAM", str(tmp_path / "missing"))
    with pytest.raises(ProgramError, match="missing"):
        Everypage().job("x")


def test_the_asynchronous_client_does_the_same(calm, sample, variant):
    async def run():
        seen = []

        async def progress(job):
            seen.append(job.status)

        async with AsyncEverypage(calm.url) as client:
            one, two = await asyncio.gather(
                client.read(variant(6), progress=progress), client.read(variant(7), pages="1")
            )
            assert len(one.pages) == 12 and len(two.pages) == 1
            assert seen[-1] is Status.SUCCESS
            assert one.job_id in [job.id async for job in client.jobs()]
            assert [event.type_ async for event in client.events(two.job_id)][0] == "job.received"
            assert (await client.page_image(one.job_id, 4)).startswith(b"\xff\xd8")
            assert (await client.page(one.job_id, 1)).text == one.pages[0].text
            assert (await client.markdown(two.job_id)) and (await client.text(two.job_id))
            with pytest.raises(JobError, match="password"):
                await client.read(sample.parent / "encrypted.pdf")
            with pytest.raises(ProblemError):
                await client.cancel("unknown")
            await client.delete(two.job_id)

    asyncio.run(run())


def test_a_large_document_goes_through_an_upload_link(monkeypatch):
    """Only a stack on AWS has upload links, so the answers are given here."""
    monkeypatch.setattr(flows, "MAX_BODY", 10)
    flow = flows.submit(b"x" * 11, {"name": "big.pdf", "password": "é"})
    assert isinstance(flow.send(None), flows.Load)
    asked = flow.send(Document("document.pdf", b"x" * 11))
    assert asked.operation is get_me
    link = flow.send(type("Me", (), {"uploads": True}))
    assert isinstance(link.arguments["body"], UploadRequest) and link.arguments["body"].password == "é"
    assert link.arguments["name"] == "big.pdf"
    job = Job.from_dict(UPLOAD)
    put = flow.send(job)
    assert (put.method, put.url, put.headers, put.content) == ("PUT", "https://store/1", {"content-type": "application/pdf"}, b"x" * 11)
    with pytest.raises(StopIteration) as end:
        flow.send(b"")
    assert end.value.value is job


UPLOAD = {
    "id": "1", "status": "awaiting_upload", "message": "", "document": {"name": "big.pdf"}, "source": "api",
    "options": {"pages": "all", "ai_pages": "graphics", "tier": "primary", "provider": "openai", "cost": "standard", "deadline": "5m",
                "patience": "deadline", "priority": "normal"},
    "created_at": "2026-11-18T00:00:00Z", "redrives": 0, "links": {"self": "/v1/jobs/1"},
    "upload": {"method": "PUT", "url": "https://store/1", "headers": {"content-type": "application/pdf"},
               "expires_at": "2026-11-18T01:00:00Z"},
}


def test_passing_errors_are_retried_as_long_as_the_server_asks():
    busy = httpx.Response(429, headers={"retry-after": "3"})
    assert retries.delay(1, busy) == 3
    assert 0 < retries.delay(1, httpx.Response(503)) <= 0.5
    assert 0 < retries.delay(2, httpx.ConnectError("refused")) <= 1
    assert retries.delay(1, httpx.Response(422)) is None
    assert retries.delay(1, httpx.Response(200)) is None
    assert retries.delay(5, busy) is None
