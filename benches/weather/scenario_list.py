"""The scenarios: what the provider does, as rules for Everypage's scripted provider (`everypage dev provider`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

import pages

# Everypage's defaults, in the order in which it calls them: the first two are one provider's, the others another's.
MODELS = ["gpt-5.4", "gpt-5.4-mini", "claude-sonnet-4-6", "claude-opus-4-6"]
FIRST = MODELS[0]

# Everypage's default. What arrived a second later still counts, for every contestant: a process has to end.
DEADLINE = 300
GRACE = 1
SHORT_DEADLINE = 30

# Calls that each provider takes at once; it answers more with 429.
CAPACITY = 50
LATENCY = 0.5
BAD_PAGE = 7
# A call has about this many, most of them for its image.
TOKENS_PER_PAGE = 1000


@dataclass(frozen=True)
class Setup:
    """The size of a run."""

    pages: int
    providers: int

    @property
    def models(self) -> list[str]:
        return MODELS[: 2 * self.providers]


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    # Rules that decide before a call takes one of the provider's slots.
    early: tuple[str, ...] = ()
    # Of each provider, in addition to its slots: a quarter of the pages per 10 s, so that a document takes 30 s at best.
    limit: str = ""
    # Rules about calls that have a slot.
    faults: Callable[[Setup], list[str]] = lambda setup: []
    delay: str = f"{int(LATENCY * 1000)}ms"
    deadline: int = DEADLINE
    # Pages that some model would read in time.
    unreadable: Callable[[Setup], int] = lambda setup: 0
    providers: tuple[int, ...] = (1, 2)
    pages: tuple[int, ...] = (40, 400)
    # Seconds that a call takes, where the makespan of a second run is compared with the ideal.
    warm_latency: float | None = None
    # Its runs wait much more than they compute: several may be made at once.
    waits: bool = False


def everything(setup: Setup) -> int:
    return setup.pages


def one_page(setup: Setup) -> int:
    return 1


PROVIDERS = ["openai", "anthropic"]

SCENARIOS = [
    Scenario("well", f"all well, {LATENCY} s per call"),
    Scenario("well-varied", f"all well, {LATENCY} s per call, lognormal with sigma 0.6", delay="500ms~0.6"),
    Scenario("errors-3", "3 % of calls get 500", faults=lambda setup: ["share=3%=500"]),
    Scenario("errors-10", "10 % of calls get 500", faults=lambda setup: ["share=10%=500"]),
    Scenario(
        "errors-3-wait", "3 % of calls get 503, Retry-After 30", faults=lambda setup: ["share=3%=503;retry-after=30"]
    ),
    Scenario("requests", "limit of requests, without headers", limit="requests={calls}/10s", waits=True),
    Scenario(
        "requests-headers", "limit of requests, with headers", limit="requests={calls}/10s;retry-after=auto;headers",
        waits=True,
    ),
    Scenario(
        "requests-announced", "limit of requests, with headers but no Retry-After", limit="requests={calls}/10s;headers",
        waits=True,
    ),
    Scenario("tokens", "limit of tokens, without headers", limit="tokens={tokens}/10s", waits=True),
    Scenario(
        "tokens-headers", "limit of tokens, with headers", limit="tokens={tokens}/10s;retry-after=auto;headers",
        waits=True,
    ),
    Scenario("first-wave", "first 20 calls get 429, Retry-After 2", early=("first=20=429;retry-after=2",)),
    Scenario("outage-20", "first provider answers 503 for 20 s", early=("openai:*;to=20s=503",), waits=True),
    Scenario("outage-90", "first provider answers 503 for 90 s", early=("openai:*;to=90s=503",), waits=True),
    Scenario(
        "outage-all", "every provider answers 503 until the deadline", early=("503",), deadline=SHORT_DEADLINE,
        unreadable=everything, waits=True,
    ),
    Scenario("one-hangs", "first model hangs", early=(f"model={FIRST}=hang",), waits=True),
    Scenario(
        "two-hang", "both models of the first provider hang", early=("openai:*=hang",), providers=(2,), waits=True
    ),
    Scenario(
        "all-hang", "every model hangs", early=("hang",), deadline=SHORT_DEADLINE, unreadable=everything, waits=True
    ),
    Scenario(
        "slow-middle", "first model takes 20 s longer from the middle on",
        faults=lambda setup: [f"model={FIRST};after={setup.pages // 2}=next;delay=20s"],
        waits=True,
    ),
    Scenario(
        "refused-page", f"every model refuses page {BAD_PAGE}", faults=lambda setup: [f"page={BAD_PAGE}=refusal"],
        unreadable=one_page,
    ),
    Scenario(
        "bad-request", f"first model answers page {BAD_PAGE} with 400",
        faults=lambda setup: [f"model={FIRST};page={BAD_PAGE}=400"],
    ),
    Scenario(
        "warm", f"all well, {LATENCY} s per call, second run", pages=(400,), providers=(1,), warm_latency=LATENCY
    ),
    Scenario(
        "warm-3s", "all well, 3 s per call, second run", pages=(400,), providers=(1,), delay="3s", warm_latency=3.0
    ),
]


def script(scenario: Scenario, setup: Setup) -> list[str]:
    """Calls that die need no slot; the others take one, take their time, and get an error or their page's text."""
    quarter = setup.pages // 4
    options = [f"at-once={CAPACITY}", scenario.limit.format(calls=quarter, tokens=TOKENS_PER_PAGE * quarter)]
    limits = [f"{provider}:*=limit;{';'.join(filter(None, options))}" for provider in PROVIDERS]
    answers = [f"page={page}=text={json.dumps(pages.answer(page))}" for page in range(1, setup.pages + 1)]
    return [*scenario.early, *limits, f"next;delay={scenario.delay}", *scenario.faults(setup), *answers]


def ideal_seconds(scenario: Scenario, setup: Setup) -> float | None:
    """The time that the calls take if the provider is always full."""
    return scenario.warm_latency and setup.pages * scenario.warm_latency / CAPACITY
