"""The tools, their settings, and where each one's output is found.

`defaults` is the tool without any settings. `best` is what the tool's own documentation offers for models that fail
or hang, with the same timeout for a call for all tools. docs/rivals.md explains each number of retries.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import install
from scenarios import CONCURRENCY, CALL_TIMEOUT, DEADLINE, MODELS, REQUESTS

DRIVERS = Path(__file__).resolve().parent / "drivers"


@dataclass(frozen=True)
class Answer:
    """A page's text, and when it was available."""

    page: int
    text: str
    time: float


@dataclass(frozen=True)
class RunInput:
    """The input of a run."""

    folder: Path
    document: Path
    openai_url: str
    url: str


@dataclass(frozen=True)
class Tool:
    name: str
    settings: str
    command: Callable[[RunInput], list[str]]
    delivered: Callable[[Path], list[Answer]]
    environment: Callable[[RunInput], dict[str, str]]
    # How many models it calls.
    models: int
    front_matter: bool = False

    @property
    def label(self) -> str:
        return f"{self.name}, {self.settings}"


def environment_without_keys(**more: str) -> dict[str, str]:
    """This machine's variables without any keys, so that tools can call only the scripted provider."""
    keep = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return keep | more


# ---- Everypage --------------------------------------------------------------------------------------


def everypage(settings: str, *options: str, **tuned: str) -> Tool:
    def command(run_input: RunInput) -> list[str]:
        given = ["process", str(run_input.document), "--deadline", f"{DEADLINE}s", "--format", "json", "-o", "out", "-q"]
        return [str(install.everypage()), *given, *options]

    def environment(run_input: RunInput) -> dict[str, str]:
        return environment_without_keys(
            HOME=str(run_input.folder), EVERYPAGE_DATA=str(run_input.folder / "data"),
            OPENAI_BASE_URL=run_input.openai_url, ANTHROPIC_BASE_URL=run_input.url, ANTHROPIC_API_KEY="scripted",
            OPENAI_PRIMARY_MODEL=MODELS[0], OPENAI_SECONDARY_MODEL=MODELS[1],
            ANTHROPIC_PRIMARY_MODEL=MODELS[2], ANTHROPIC_SECONDARY_MODEL=MODELS[3], **tuned,
        )

    return Tool("Everypage", settings, command, everypage_result, environment, 4)


def everypage_result(folder: Path) -> list[Answer]:
    """The pages of the result: one file at the end, which appears complete."""
    return [
        Answer(page["page"], page["text"], result.stat().st_mtime)
        for result in (folder / "out").glob("*.json")
        for page in json.loads(result.read_text())["pages"]
        if page.get("has_text", True)
    ]


# ---- py-zerox ---------------------------------------------------------------------------------------


def zerox(settings: str, models: int, skip_probe: bool, **options: object) -> Tool:
    def command(run_input: RunInput) -> list[str]:
        task = {"document": str(run_input.document), "model": MODELS[0], "options": options, "skip_probe": skip_probe}
        return [str(install.python("py-zerox")), str(DRIVERS / "run_zerox.py"), json.dumps(task)]

    return Tool("py-zerox", settings, command, recorded_answers, provider_keys, models)


def provider_keys(run_input: RunInput) -> dict[str, str]:
    return environment_without_keys(
        HOME=str(run_input.folder), OPENAI_API_KEY="scripted", OPENAI_API_BASE=run_input.openai_url,
        ANTHROPIC_API_KEY="scripted", ANTHROPIC_API_BASE=run_input.url,
        # Use the package's own list of models and prices; otherwise LiteLLM downloads one.
        LITELLM_LOCAL_MODEL_COST_MAP="True",
    )


def recorded_answers(folder: Path) -> list[Answer]:
    """The answers that a driver recorded."""
    file = folder / "answers.jsonl"
    return [Answer(**answer) for answer in complete_lines(file)] if file.exists() else []


def complete_lines(file: Path) -> list[dict]:
    """The complete lines of JSON; the last line of a killed run may be incomplete, and does not count."""
    return [json.loads(line) for line in file.read_text().split("\n")[:-1]]


# ---- olmOCR -----------------------------------------------------------------------------------------


def olmocr(settings: str, *options: str) -> Tool:
    def command(run_input: RunInput) -> list[str]:
        server = ["--server", run_input.openai_url, "--model", MODELS[0]]
        given = ["work", *server, "--markdown", "--pdfs", str(run_input.document)]
        return [str(install.python("olmocr")), "-m", "olmocr.pipeline", *given, *options]

    def environment(run_input: RunInput) -> dict[str, str]:
        # It creates S3 clients at its start, even for local files.
        return environment_without_keys(
            HOME=str(run_input.folder), AWS_ACCESS_KEY_ID="none", AWS_SECRET_ACCESS_KEY="none", AWS_REGION="us-east-1",
            AWS_DEFAULT_REGION="us-east-1",
        )

    def delivered(folder: Path) -> list[Answer]:
        # A line for each document, when its last page is done.
        return [
            Answer(page, document["text"][start:end].strip(), result.stat().st_mtime)
            for result in (folder / "work" / "results").glob("*.jsonl")
            for document in complete_lines(result)
            for start, end, page in document["attributes"]["pdf_page_numbers"]
        ]

    return Tool("olmOCR", settings, command, delivered, environment, 1, front_matter=True)


# ---- LiteLLM Router ---------------------------------------------------------------------------------


def litellm(settings: str, **router: object) -> Tool:
    def command(run_input: RunInput) -> list[str]:
        def parameters(model: str) -> dict[str, object]:
            openai = model.startswith("gpt")
            provider, address = ("openai", run_input.openai_url) if openai else ("anthropic", run_input.url)
            return {"model": f"{provider}/{model}", "api_base": address, "api_key": "scripted"}

        models = [{"model_name": model, "litellm_params": parameters(model)} for model in MODELS]
        task = {
            "router": {"model_list": models, "fallbacks": [{MODELS[0]: MODELS[1:]}], **router},
            "model": MODELS[0], "requests": REQUESTS, "concurrency": CONCURRENCY,
        }
        return [str(install.python("litellm")), str(DRIVERS / "call_litellm.py"), json.dumps(task)]

    return Tool("LiteLLM Router", settings, command, recorded_answers, provider_keys, 4)


# ---- TensorZero -------------------------------------------------------------------------------------


def tensorzero(settings: str, provider_line: str = "") -> Tool:
    def command(run_input: RunInput) -> list[str]:
        config = [
            "[gateway]", "observability.enabled = false",
            "[functions.read]", 'type = "chat"',
            "[functions.read.variants.chain]", 'type = "chat_completion"', 'model = "chain"', "max_tokens = 1000",
            "[models.chain]", f"routing = {json.dumps([_key(model) for model in MODELS])}",
        ]
        for model in MODELS:
            openai = model.startswith("gpt")
            config += [
                f"[models.chain.providers.{_key(model)}]", f'type = "{"openai" if openai else "anthropic"}"',
                f'model_name = "{model}"', f'api_base = "{run_input.openai_url}/"',
                f'api_key_location = "{"none" if openai else "env::ANTHROPIC_API_KEY"}"', provider_line,
            ]
        task = {"config": "\n".join(config), "requests": REQUESTS, "concurrency": CONCURRENCY}
        return [str(install.python("tensorzero")), str(DRIVERS / "call_tensorzero.py"), json.dumps(task)]

    return Tool("TensorZero", settings, command, recorded_answers, provider_keys, 4)


def _key(model: str) -> str:
    return model.replace("-", "_").replace(".", "_")


# ---- Settings ---------------------------------------------------------------------------------------

READERS = [
    everypage("defaults"),
    # docs/settings.md: the timeout of a call, so that the chain fits into the deadline.
    everypage("best", REQUEST_TIMEOUT=f"{CALL_TIMEOUT}s"),
    zerox("defaults", 1, skip_probe=False),
    # Its README: unknown options are passed on to LiteLLM's `completion`, whose documentation
    # ("Reliability - Retries, Fallbacks") has `timeout`, `num_retries` and `fallbacks`. Without the second, OpenAI's
    # models are called three times before the next one.
    zerox(
        "best", 4, skip_probe=True, timeout=CALL_TIMEOUT, num_retries=0,
        fallbacks=[MODELS[1], *(f"anthropic/{model}" for model in MODELS[2:])],
    ),
    olmocr("defaults"),
    # Its --help: the share of pages that may fail; those get pdftotext's text. Tries per page: three get it through the
    # rate limit, and one is to spare. It has no timeout for a call and no second server.
    olmocr("best", "--max_page_error_rate", "1", "--max_page_retries", "4"),
]

GATEWAYS = [
    # Text pages go to a model only with this option.
    everypage("defaults", "--ai-pages", "all"),
    # docs/settings.md: the same concurrency as the others.
    everypage(
        "best", "--ai-pages", "all", REQUEST_TIMEOUT=f"{CALL_TIMEOUT}s",
        WORKER_CONCURRENCY=str(CONCURRENCY), MAX_INFLIGHT_PER_MODEL=str(CONCURRENCY),
    ),
    litellm("defaults"),
    # Its documentation, "Retries, fallbacks and cooldowns": one failure puts a model into a cooldown of half a minute,
    # and the next one is called without delay.
    litellm("best", timeout=CALL_TIMEOUT, num_retries=0, allowed_fails=0, cooldown_time=30),
    tensorzero("defaults"),
    # Its documentation, "Configuration reference": a timeout per provider, after which the next one is called.
    tensorzero("best", f"timeouts = {{ non_streaming = {{ total_ms = {CALL_TIMEOUT * 1000} }} }}"),
]
