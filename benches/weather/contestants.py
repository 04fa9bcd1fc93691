"""The contestants, their settings, and where each one's output is found.

Everypage has its defaults. The others have settings that suit many scenarios, the same in all of them, and the same
timeout of a call.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import install
import tools
from scenario_list import CAPACITY, DEADLINE

HERE = Path(__file__).resolve().parent
READERS = install.ROOT / ".cache" / "weather" / "readers"
PACKAGES = {"openai": "2.54.0", "litellm": "1.106.2", "pypdfium2": "5.14.0", "pillow": "13.0.0"}
CALL_TIMEOUT = 30


@dataclass(frozen=True)
class Run(tools.RunInput):
    """The input of a run."""

    everypage: Path
    pages: int
    models: list[str]
    deadline: int

    def model_address(self, model: str) -> dict[str, str]:
        """LiteLLM's parameters of a model."""
        provider, address = ("openai", self.openai_url) if model.startswith("gpt") else ("anthropic", self.url)
        return {"model": f"{provider}/{model}", "api_base": address, "api_key": "scripted"}


@dataclass(frozen=True)
class Contestant:
    key: str
    name: str
    settings: str
    command: Callable[[Run], list[str]]
    environment: Callable[[Run], dict[str, str]]
    delivered: Callable[[Path], list[tools.Answer]]


def install_all() -> None:
    install.install_programs()
    install.install_tool("py-zerox")
    packages = [f"{name}=={version}" for name, version in PACKAGES.items()]
    install.install_environment(READERS, packages, ["litellm", "olmocr"])


def driver(python: Path, name: str, run: Run, **task: object) -> list[str]:
    task = {"document": str(run.document), "pages": run.pages, "deadline": run.deadline, **task}
    return [str(python), str(HERE / "drivers" / name), json.dumps(task)]


def driver_environment(run: Run) -> dict[str, str]:
    return tools.provider_keys(run) | {
        "OPENAI_BASE_URL": run.openai_url,
        "PYTHONPATH": str(tools.DRIVERS),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


# ---- Everypage --------------------------------------------------------------------------------------


def everypage_command(run: Run) -> list[str]:
    # --force: the same document again, where a scenario measures a second run.
    given = ["process", str(run.document), "--format", "json", "-o", "out", "-q", "--force"]
    deadline = ["--deadline", f"{run.deadline}s"] if run.deadline != DEADLINE else []
    return [str(run.everypage), *given, *deadline]


def everypage_environment(run: Run) -> dict[str, str]:
    environment = tools.environment_without_keys(
        HOME=str(run.folder), EVERYPAGE_DATA=str(run.folder.parent / "data"),
        OPENAI_BASE_URL=run.openai_url, OPENAI_API_KEY="scripted",
    )
    if len(run.models) > 2:
        environment |= {"ANTHROPIC_BASE_URL": run.url, "ANTHROPIC_API_KEY": "scripted"}
    return environment


# ---- Other tools ------------------------------------------------------------------------------------


def openai(concurrency: int, models: int, until_deadline: bool, **client: object) -> Callable[[Run], list[str]]:
    def command(run: Run) -> list[str]:
        # The package speaks to one provider.
        return driver(
            READERS / "bin" / "python", "read_openai.py", run, concurrency=concurrency, models=run.models[:models],
            until_deadline=until_deadline, client=client,
        )

    return command


def litellm(run: Run) -> list[str]:
    first, *others = run.models
    router = {
        "model_list": [{"model_name": model, "litellm_params": run.model_address(model)} for model in run.models],
        "fallbacks": [{first: others}],
        "timeout": CALL_TIMEOUT,
        **LITELLM,
    }
    return driver(READERS / "bin" / "python", "read_litellm.py", run, concurrency=CAPACITY, model=first, router=router)


def zerox(run: Run) -> list[str]:
    first, *others = (run.model_address(model)["model"] for model in run.models)
    options = {"concurrency": CAPACITY, "timeout": CALL_TIMEOUT, "fallbacks": others, **ZEROX}
    return driver(install.python("py-zerox"), "read_zerox.py", run, model=first, options=options)


# Its documentation, "Retries, fallbacks and cooldowns". It calls the next model when the retries are over: with 10 and
# a first model that hangs, that is after the deadline; with 5, a third of the pages is lost to a rate limit.
LITELLM = {"num_retries": 7, "allowed_fails": 3, "cooldown_time": 5, "retry_after": 1}
# Unknown options of py-zerox are passed on to LiteLLM's `completion` ("Reliability - Retries, Fallbacks").
ZEROX = {"num_retries": 7}

CONTESTANTS = [
    Contestant(
        "everypage", "Everypage", "defaults", everypage_command, everypage_environment, tools.everypage_result
    ),
    Contestant(
        "openai", "openai package", "defaults (2 retries, 600 s timeout), 8 at once",
        openai(8, 1, until_deadline=False), driver_environment, tools.recorded_answers,
    ),
    Contestant(
        "openai-best", "openai package, best",
        f"{CAPACITY} at once, 2 retries, {CALL_TIMEOUT} s timeout, then the next model, again until the deadline",
        openai(CAPACITY, 2, until_deadline=True, timeout=CALL_TIMEOUT), driver_environment, tools.recorded_answers,
    ),
    Contestant(
        "litellm", "LiteLLM Router",
        f"{CAPACITY} at once, {CALL_TIMEOUT} s timeout, fallbacks, "
        + ", ".join(f"`{name}={value}`" for name, value in LITELLM.items()),
        litellm, driver_environment, tools.recorded_answers,
    ),
    Contestant(
        "zerox", "py-zerox",
        f"{CAPACITY} at once, {CALL_TIMEOUT} s timeout, fallbacks, "
        + ", ".join(f"`{name}={value}`" for name, value in ZEROX.items()),
        zerox, driver_environment, tools.recorded_answers,
    ),
]
