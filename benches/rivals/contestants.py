"""Who runs, with which settings, and where what each delivers is found.

`defaults` is what one gets without knowing of any setting. `best` is what the tool's own documentation offers
for models that fail or hang, with one timeout for a call that is the same for all. Why each number of retries is
the best one is in docs/rivals.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import install
from scenarios import AT_ONCE, CALL_TIMEOUT, DEADLINE, MODELS, REQUESTS

DRIVERS = Path(__file__).resolve().parent / "drivers"


@dataclass(frozen=True)
class Answer:
    """A page's text, and when it could be had."""

    page: int
    text: str
    time: float


@dataclass(frozen=True)
class Place:
    """What a run is given."""

    folder: Path
    document: Path
    openai_url: str
    url: str


@dataclass(frozen=True)
class Contestant:
    tool: str
    settings: str
    command: Callable[[Place], list[str]]
    delivered: Callable[[Path], list[Answer]]
    environment: Callable[[Place], dict[str, str]]
    # How many models it asks.
    models: int
    front_matter: bool = False

    @property
    def name(self) -> str:
        return f"{self.tool}, {self.settings}"


def surroundings(**more: str) -> dict[str, str]:
    """This machine's variables without anybody's keys, so that nobody is asked but the scripted provider."""
    keep = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    return keep | more


# ---- Everypage --------------------------------------------------------------------------------------


def everypage(settings: str, *options: str, **tuned: str) -> Contestant:
    def command(place: Place) -> list[str]:
        given = ["process", str(place.document), "--deadline", f"{DEADLINE}s", "--format", "json", "-o", "out", "-q"]
        return [str(install.everypage()), *given, *options]

    def environment(place: Place) -> dict[str, str]:
        return surroundings(
            HOME=str(place.folder), EVERYPAGE_DATA=str(place.folder / "data"),
            OPENAI_BASE_URL=place.openai_url, ANTHROPIC_BASE_URL=place.url, ANTHROPIC_API_KEY="scripted",
            OPENAI_PRIMARY_MODEL=MODELS[0], OPENAI_SECONDARY_MODEL=MODELS[1],
            ANTHROPIC_PRIMARY_MODEL=MODELS[2], ANTHROPIC_SECONDARY_MODEL=MODELS[3], **tuned,
        )

    def delivered(folder: Path) -> list[Answer]:
        # One file, when all is over, which appears whole.
        return [
            Answer(page["page"], page["text"], result.stat().st_mtime)
            for result in (folder / "out").glob("*.json")
            for page in json.loads(result.read_text())["pages"]
            if page.get("has_text", True)
        ]

    return Contestant("Everypage", settings, command, delivered, environment, 4)


# ---- py-zerox ---------------------------------------------------------------------------------------


def zerox(settings: str, models: int, skip_probe: bool, **options: object) -> Contestant:
    def command(place: Place) -> list[str]:
        task = {"document": str(place.document), "model": MODELS[0], "options": options, "skip_probe": skip_probe}
        return [str(install.python("py-zerox")), str(DRIVERS / "read_with_zerox.py"), json.dumps(task)]

    return Contestant("py-zerox", settings, command, kept, vendor_keys, models)


def vendor_keys(place: Place) -> dict[str, str]:
    return surroundings(
        HOME=str(place.folder), OPENAI_API_KEY="scripted", OPENAI_API_BASE=place.openai_url,
        ANTHROPIC_API_KEY="scripted", ANTHROPIC_API_BASE=place.url,
        # Its list of models and prices as it came with the package; without this it is fetched from the net.
        LITELLM_LOCAL_MODEL_COST_MAP="True",
    )


def kept(folder: Path) -> list[Answer]:
    """What a driver wrote down, answer by answer."""
    file = folder / "answers.jsonl"
    return [Answer(**answer) for answer in whole_lines(file)] if file.exists() else []


def whole_lines(file: Path) -> list[dict]:
    """Of JSON; the last one may be half, where a run was killed, and half is no delivery."""
    return [json.loads(line) for line in file.read_text().split("\n")[:-1]]


# ---- olmOCR -----------------------------------------------------------------------------------------


def olmocr(settings: str, *options: str) -> Contestant:
    def command(place: Place) -> list[str]:
        server = ["--server", place.openai_url, "--model", MODELS[0]]
        given = ["work", *server, "--markdown", "--pdfs", str(place.document)]
        return [str(install.python("olmocr")), "-m", "olmocr.pipeline", *given, *options]

    def environment(place: Place) -> dict[str, str]:
        # It makes S3 clients at its start, whatever it reads.
        return surroundings(
            HOME=str(place.folder), AWS_ACCESS_KEY_ID="none", AWS_SECRET_ACCESS_KEY="none", AWS_REGION="us-east-1",
            AWS_DEFAULT_REGION="us-east-1",
        )

    def delivered(folder: Path) -> list[Answer]:
        # A line for each document, when its last page is over.
        return [
            Answer(page, document["text"][start:end].strip(), result.stat().st_mtime)
            for result in (folder / "work" / "results").glob("*.jsonl")
            for document in whole_lines(result)
            for start, end, page in document["attributes"]["pdf_page_numbers"]
        ]

    return Contestant("olmOCR", settings, command, delivered, environment, 1, front_matter=True)


# ---- LiteLLM Router ---------------------------------------------------------------------------------


def litellm(settings: str, **router: object) -> Contestant:
    def command(place: Place) -> list[str]:
        def parameters(model: str) -> dict[str, object]:
            openai = model.startswith("gpt")
            vendor, address = ("openai", place.openai_url) if openai else ("anthropic", place.url)
            return {"model": f"{vendor}/{model}", "api_base": address, "api_key": "scripted"}

        models = [{"model_name": model, "litellm_params": parameters(model)} for model in MODELS]
        task = {
            "router": {"model_list": models, "fallbacks": [{MODELS[0]: MODELS[1:]}], **router},
            "model": MODELS[0], "requests": REQUESTS, "at_once": AT_ONCE,
        }
        return [str(install.python("litellm")), str(DRIVERS / "ask_litellm.py"), json.dumps(task)]

    return Contestant("LiteLLM Router", settings, command, kept, vendor_keys, 4)


# ---- TensorZero -------------------------------------------------------------------------------------


def tensorzero(settings: str, provider_line: str = "") -> Contestant:
    def command(place: Place) -> list[str]:
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
                f'model_name = "{model}"', f'api_base = "{place.openai_url}/"',
                f'api_key_location = "{"none" if openai else "env::ANTHROPIC_API_KEY"}"', provider_line,
            ]
        task = {"config": "\n".join(config), "requests": REQUESTS, "at_once": AT_ONCE}
        return [str(install.python("tensorzero")), str(DRIVERS / "ask_tensorzero.py"), json.dumps(task)]

    return Contestant("TensorZero", settings, command, kept, vendor_keys, 4)


def _key(model: str) -> str:
    return model.replace("-", "_").replace(".", "_")


# ---- Settings ---------------------------------------------------------------------------------------

READERS = [
    everypage("defaults"),
    # README, "Configuration": the longest call, so that the chain fits into the deadline.
    everypage("best", REQUEST_TIMEOUT=f"{CALL_TIMEOUT}s"),
    zerox("defaults", 1, skip_probe=False),
    # Its README: what it does not know itself is passed on to LiteLLM's `completion`, whose documentation
    # ("Reliability - Retries, Fallbacks") has `timeout`, `num_retries` and `fallbacks`. Without the second, a model
    # of OpenAI's is asked three times before the next one is.
    zerox(
        "best", 4, skip_probe=True, timeout=CALL_TIMEOUT, num_retries=0,
        fallbacks=[MODELS[1], *(f"anthropic/{model}" for model in MODELS[2:])],
    ),
    olmocr("defaults"),
    # Its --help: the share of pages that may fail; those keep what pdftotext reads. How often a page is tried: three
    # times get it through the rate limit, and one is to spare. It has no timeout for a call and no second server.
    olmocr("best", "--max_page_error_rate", "1", "--max_page_retries", "4"),
]

GATEWAYS = [
    # Pages of text go to a model only when asked for.
    everypage("defaults", "--ai-pages", "all"),
    # README, "Configuration": as many at once as the others.
    everypage(
        "best", "--ai-pages", "all", REQUEST_TIMEOUT=f"{CALL_TIMEOUT}s",
        WORKER_CONCURRENCY=str(AT_ONCE), MAX_INFLIGHT_PER_MODEL=str(AT_ONCE),
    ),
    litellm("defaults"),
    # Its documentation, "Retries, fallbacks and cooldowns": one failure rests a model for half a minute, and
    # the next one is asked at once.
    litellm("best", timeout=CALL_TIMEOUT, num_retries=0, allowed_fails=0, cooldown_time=30),
    tensorzero("defaults"),
    # Its documentation, "Configuration reference": a timeout of each provider, after which the next is asked.
    tensorzero("best", f"timeouts = {{ non_streaming = {{ total_ms = {CALL_TIMEOUT * 1000} }} }}"),
]
