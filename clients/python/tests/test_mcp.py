"""`everypage mcp` with the MCP SDK for Python as its client, and byte by byte."""

import asyncio
import json
import os
import subprocess

import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

BINARY = os.environ["EVERYPAGE_BINARY"]
TOOLS = ["job_status", "list_jobs", "read_document", "read_page", "read_pages", "search"]


def connected(server, work):
    """Runs `work(session)` with a client that has started the program."""

    async def run():
        parameters = StdioServerParameters(command=BINARY, args=["mcp"], env=server.settings)
        async with stdio_client(parameters) as (read, write):
            async with ClientSession(read, write) as session:
                await session.initialize()
                return await work(session)

    return asyncio.run(run())


async def call(session, tool, **arguments):
    result = await session.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


def test_a_document_is_read_in_bounded_parts_and_searched(serve, sample):
    async def work(session):
        listed = (await session.list_tools()).tools
        assert sorted(tool.name for tool in listed) == TOOLS
        assert all(tool.description and tool.input_schema and tool.output_schema for tool in listed)
        first = await call(session, "read_document", path=str(sample), max_chars=1000)
        assert (first["status"], first["total_pages"], first["provisional"]) == ("success", 12, False)
        parts = [page["text"] for page in first["pages"]]
        assert 0 < sum(map(len, parts)) <= 1000
        job, place, rounds = first["job"], first["next"], 0
        while place:
            answer = await call(session, "read_pages", job=job, max_chars=700, **place)
            assert sum(len(page["text"]) for page in answer["pages"]) <= 700
            parts += [page["text"] for page in answer["pages"]]
            place, rounds = answer.get("next"), rounds + 1
        assert rounds > 2
        whole = await call(session, "read_pages", job=job, max_chars=100000)
        assert "".join(parts) == "".join(page["text"] for page in whole["pages"]) and "next" not in whole
        page = await call(session, "read_page", job=job, page=4)
        assert [one["page"] for one in page["pages"]] == [4] and page["pages"][0]["source"] == "ai"
        # Words of page 2, in another case and with another space between them.
        words = " \n ".join(whole["pages"][1]["text"].upper().split()[3:5])
        found = await call(session, "search", query=words)
        assert 2 in [hit["page"] for hit in found["hits"]] and not found["more"]
        limited = await call(session, "search", query="e", job=job, limit=1)
        assert len(limited["hits"]) == 1 and limited["more"]
        assert (await call(session, "job_status", job=job))["pages_done"] == 12
        assert [one["job"] for one in (await call(session, "list_jobs"))["jobs"]] == [job]
        return job

    server = serve()
    job = connected(server, work)

    async def again(session):
        # Another process, the same data folder: the job is found, and nothing is read twice.
        assert (await call(session, "read_document", path=str(sample)))["job"] == job
        resources = (await session.list_resources()).resources
        assert [str(resource.uri) for resource in resources] == [f"everypage://jobs/{job}/result.md"]
        (markdown,) = (await session.read_resource(resources[0].uri)).contents
        assert "page-12" in markdown.text and markdown.mime_type == "text/markdown"
        (text,) = (await session.read_resource(f"everypage://jobs/{job}/result.txt")).contents
        assert text.text.startswith("=== Page 1 ===")
        (page,) = (await session.read_resource(f"everypage://jobs/{job}/pages/4")).contents
        assert "read by" in page.text
        assert len((await session.list_resource_templates()).resource_templates) == 2
        for unknown in (f"everypage://jobs/{job}/pages/13", "everypage://jobs/x/result.md", "file:///etc/passwd"):
            with pytest.raises(Exception, match="no page 13|no job x|is not everypage"):
                await session.read_resource(unknown)

    connected(server, again)


def test_wrong_calls_are_explained_to_the_model(serve, sample):
    async def work(session):
        for tool, arguments, reason in [
            ("read_document", {"path": "/missing.pdf"}, "missing.pdf"),
            ("read_document", {"path": str(sample), "tier": "best"}, "accepted: primary, fast, secondary"),
            ("read_document", {"path": str(sample), "cost": "cheap"}, "accepted: standard, low"),
            ("read_document", {"path": str(sample.parent / "encrypted.pdf")}, "password"),
            ("read_page", {"job": "zz", "page": 1}, "no job zz"),
            ("search", {"query": "x", "job": "unknown"}, "no job unknown"),
        ]:
            result = await session.call_tool(tool, arguments)
            assert result.is_error and reason in result.content[0].text, (tool, result)
        read = await call(session, "read_document", path=str(sample), pages="1-2", cost="low", budget_usd=1.5, failover="openai:gpt-5.4", patience="30s")
        result = await session.call_tool("read_page", {"job": read["job"], "page": 3})
        assert result.is_error and "no page 3" in result.content[0].text

    connected(serve(), work)


def test_a_slow_document_continues_in_the_background_with_progress(serve, sample):
    async def work(session):
        seen = []

        async def progress(done, total, message):
            seen.append((done, total, message))

        arguments = {"path": str(sample), "wait_seconds": 2}
        result = await session.call_tool("read_document", arguments, progress_callback=progress)
        answer = result.structured_content
        assert answer["status"] == "processing" and answer["provisional"]
        assert len(answer["pages"]) == 12, "what is read so far"
        assert seen and seen[-1][:2] == (8, 12), seen
        for _ in range(100):
            status = await call(session, "job_status", job=answer["job"])
            if status["status"] == "success":
                break
            await asyncio.sleep(0.2)
        page = await call(session, "read_page", job=answer["job"], page=4)
        assert page["pages"][0]["source"] == "ai" and not page["provisional"]

    connected(serve("answer;delay=4s"), work)


def test_standard_output_has_nothing_but_the_protocol(serve, sample):
    server = serve()
    asked = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "read_document", "arguments": {"path": str(sample)}}},
    ]
    settings = server.settings | {"LOG_LEVEL": "debug"}
    process = subprocess.Popen([BINARY, "-vv", "mcp"], env=settings, text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write("".join(json.dumps(one) + "\n" for one in asked))
    process.stdin.flush()
    answers = []
    for line in process.stdout:
        answers.append(json.loads(line))
        if answers[-1].get("id") == 2:
            break
    # The client goes away.
    process.stdin.close()
    rest, log = process.stdout.read(), process.stderr.read()
    assert process.wait(timeout=30) == 0
    assert rest == "" and [one["id"] for one in answers if "id" in one] == [1, 2]
    assert answers[0]["result"]["serverInfo"]["name"] == "everypage"
    assert log, "the log is on standard error"
    quiet = subprocess.run([BINARY, "mcp"], env=server.settings, stdin=subprocess.DEVNULL, capture_output=True, timeout=30)
    assert (quiet.returncode, quiet.stdout) == (0, b"")
