"""The generated client works on every route, without the hand-written one."""

import importlib
import inspect
import io
import json
import pkgutil
import time

import everypage.generated.api
import everypage.generated.models as models
from conftest import ROOT, load
from everypage.generated.client import AuthenticatedClient
from everypage.generated.types import UNSET, File

payments = load("payments", ROOT / "tests" / "console" / "payments.py")


def operations() -> dict:
    """Every operation of the generated client by its id."""
    modules = {}
    for package in pkgutil.iter_modules(everypage.generated.api.__path__):
        base = f"everypage.generated.api.{package.name}"
        for found in pkgutil.iter_modules(importlib.import_module(base).__path__):
            modules[found.name] = importlib.import_module(f"{base}.{found.name}")
    return modules


def test_every_route_is_called_and_its_answer_parsed(serve, sample):
    service = payments.FakePaymentServer()
    try:
        # A plan that costs anything waits for approval.
        server = serve(
            "page=4;first=4=400", keys=["operator"], PAYMENT_URL=service.url, CREDIT_PRICE_USD="0.05",
            APPROVAL_THRESHOLD_USD="0.000001", WEBHOOK_ALLOW_PRIVATE="true",
        )
        call_all(AuthenticatedClient(base_url=server.url, token=server.keys[0], timeout=30), sample.read_bytes())
    finally:
        service.stop()


def call_all(client, pdf):
    modules, called = operations(), set()

    def call(name, expected, /, **arguments):
        called.add(name)
        response = modules[name].sync_detailed(client=client, **arguments)
        assert response.status_code == expected, (name, response.content)
        return response.parsed

    def submit(number):
        body = File(io.BytesIO(pdf + b"\n% " + str(number).encode()), "a.pdf")
        return call("submit_job", 202, body=body, tier=models.Tier.FAST, priority=models.Priority.HIGH)

    def wait(job, status):
        for _ in range(300):
            found = call("get_job", 200, id=job.id)
            if found.status.value == status:
                return found
            time.sleep(0.1)
        raise AssertionError(found)

    def form():
        return models.JobForm(file=File(io.BytesIO(pdf), "form.pdf", "application/pdf"), password="x")

    rejected, cancelled, modified, job = submit(1), submit(2), call("submit_job", 202, body=form()), submit(4)
    for one in rejected, cancelled, modified, job:
        wait(one, "awaiting_approval")
    assert call("reject_job", 200, id=rejected.id, body=models.RejectRequest(reason="no")).status.value == "rejected"
    assert call("cancel_job", 202, id=cancelled.id).id == cancelled.id
    call("approve_job", 200, id=job.id)
    done = wait(job, "success")
    assert done.result.metadata.pages_failed == 1
    assert call("modify_job", 200, id=modified.id, body=models.ModifyRequest(tier=models.Tier.SECONDARY)).plan.version == 2
    wait(modified, "success")

    assert {one.id for one in call("list_jobs", 200, status=models.ListJobsStatus.SUCCESS).items} == {job.id, modified.id}
    pages = call("list_job_pages", 200, id=job.id).items
    assert [page.source.value for page in pages[:5]] == ["mupdf", "mupdf", "mupdf", "mupdf_fallback", "ai"]
    assert call("get_job_page", 200, id=job.id, page=4).fallback_reason
    assert call("get_job_page_image", 200, id=job.id, page=4).payload.read(2) == b"\xff\xd8"
    for format_ in models.GetJobResultFormat:
        body = call("get_job_result", 200, id=job.id, format_=format_)
        # OCR has read no page of it, so there are no words.
        assert body or format_ is models.GetJobResultFormat.WORDS
    document = models.ResultDocument.from_dict(json.loads(call("get_job_result", 200, id=job.id, format_=models.GetJobResultFormat.JSON)))
    assert document.pages[3].source is models.Source.MUPDF_FALLBACK and document.pages[3].blocks
    # What the client writes again is what the server sent.
    raw = modules["get_job_result"].sync_detailed(client=client, id=job.id, format_=models.GetJobResultFormat.JSON)
    assert [page["blocks"] for page in document.to_dict()["pages"] if "blocks" in page] == [
        page["blocks"] for page in json.loads(raw.content)["pages"] if "blocks" in page
    ]
    assert call("list_job_events", 200, id=job.id).items[0].type_ == "job.received"
    assert call("list_events", 200, type_="job.audited").items
    assert call("heal_job", 202, id=job.id, body=models.HealRequest(deadline="30s")).sent == [4]
    assert call("get_stats", 200).total.jobs == 4

    bought = call("buy_credits", 201, body=models.CreditsRequest(credits_=7, method="full-card"))
    assert bought.state is models.PurchaseState.COMPLETED
    assert bought.steps[0].step is models.PurchaseStepName.RESERVE
    assert call("get_purchase", 200, id=bought.id).id == bought.id
    assert call("list_purchases", 200).items[0].id == bought.id
    assert call("get_account", 200).balance == 7
    assert call("list_ledger", 200).items[0].amount == 7

    assert call("list_dead_letters", 200).items == []
    assert call("estimate_redrive", 200, body=models.EstimateRequest(all_=True)).dead_letters == 0
    assert call("redrive_dead_letters", 200, body=models.RedriveRequest(all_=True)).redriven == []
    assert call("purge_dead_letters", 200, body=models.PurgeRequest(all_=True, confirm=0)).purged == 0
    call("list_breakers", 200)
    assert len(call("get_load", 200).lanes) == 5
    other_routes(call, modules)
    assert call("get_me", 200).role is models.Role.OPERATOR
    assert call("get_health", 200).status == "ok" and call("get_readiness", 200).status == "ok"
    assert "everypage_pages_processed_total" in call("get_metrics", 200)
    assert call("get_openapi", 200)
    call("delete_job", 204, id=rejected.id)
    problem = call("delete_job", 404, id=rejected.id)
    assert problem.code is models.ProblemCode.UNKNOWN_JOB
    # Routes that nothing above calls: their answers are parsed, if only as a problem.
    for name in set(modules) - called:
        call_blindly(client, modules[name])


def call_blindly(client, module):
    arguments = {}
    for parameter in inspect.signature(module._get_kwargs).parameters.values():
        if parameter.default is parameter.empty:
            arguments[parameter.name] = "unknown" if parameter.annotation is str else parameter.annotation()
    response = module.sync_detailed(client=client, **arguments)
    assert response.status_code < 500 and response.parsed is not None, (module.__name__, response.content)


def other_routes(call, modules):
    """The tenant's webhooks."""
    hook = models.WebhookRequest(url="http://127.0.0.1:9/hook")
    assert call("set_webhook", 200, body=hook).secret is not UNSET
    assert call("get_webhook", 200).url == "http://127.0.0.1:9/hook"
    call("unset_webhook", 204)
    wanted = models.SubscriptionRequest(url="http://127.0.0.1:9/hook", events=["job.*"])
    added = call("add_webhook", 201, body=wanted)
    assert added.secret is not UNSET and added.events == ["job.*"]
    assert call("get_webhook_by_id", 200, id=added.id).secret is UNSET
    wanted.events = ["credit.*"]
    assert call("change_webhook", 200, id=added.id, body=wanted).events == ["credit.*"]
    assert [hook.id for hook in call("list_webhooks", 200).items] == [added.id]
    assert call("list_webhook_deliveries", 200, id=added.id).items == []
    call("remove_webhook", 204, id=added.id)
