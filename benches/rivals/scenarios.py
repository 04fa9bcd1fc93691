"""The faults of the models, as scripts for Everypage's scripted provider (`everypage dev provider`)."""

from __future__ import annotations

import json
from dataclasses import dataclass

import documents

# The chain of models; tools that can use only one get the first.
MODELS = ["gpt-4o", "gpt-4o-mini", "claude-sonnet-4-5", "claude-opus-4-1"]

PAGES = len(documents.HARBOURS)
BAD_PAGE = 4
DEADLINE = 20
REQUESTS = 200
CONCURRENCY = 20
# The time that a process may take to start and to end, in addition to its work.
GRACE = 1
# A run is killed after this many deadlines.
MAX_DEADLINES = 3
# The timeout of a call with best settings, for tools that have one: several models fit into a deadline.
CALL_TIMEOUT = 2


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    rules: list[str]
    # Models that never answer correctly in this scenario.
    failing: list[str]


DOCUMENTS = [
    Scenario("no-faults", "no faults", [], []),
    Scenario("page", f"page {BAD_PAGE} fails everywhere", [f"shape={documents.shape(BAD_PAGE)}=500"], []),
    Scenario("outage", "every model answers 503", ["503"], MODELS),
    Scenario("garbage", "first model repeats one line", [f"model={MODELS[0]}=loop"], MODELS[:1]),
    Scenario("limited", "first 20 calls get 429, retry after 2 s", ["first=20=429;retry-after=2"], []),
    Scenario("first-hangs", "first model hangs", [f"model={MODELS[0]}=hang"], MODELS[:1]),
    Scenario("all-hang", "every model hangs", ["hang"], MODELS),
]

GATEWAYS = [
    Scenario("no-faults", "no faults", [], []),
    Scenario("two-down", "first two models answer 503", [f"model={name}=503" for name in MODELS[:2]], MODELS[:2]),
    Scenario("two-hang", "first two models hang", [f"model={name}=hang" for name in MODELS[:2]], MODELS[:2]),
    Scenario("outage", "every model answers 503", ["503"], MODELS),
]

# olmOCR's own model starts each page with this, and olmOCR requires it.
FRONT_MATTER = (
    "---\nprimary_language: en\nis_rotation_valid: True\nrotation_correction: 0\n"
    "is_table: False\nis_diagram: False\n---\n"
)


def document_script(scenario: Scenario, front_matter: bool) -> list[str]:
    """The scenario's rules, then each page's answer, selected by the shape of its image."""
    before = FRONT_MATTER if front_matter else ""
    answers = [
        f"shape={documents.shape(page)}=text={json.dumps(before + documents.answer(page))};delay=300ms"
        for page in range(1, PAGES + 1)
    ]
    return scenario.rules + answers


def gateway_script(scenario: Scenario) -> list[str]:
    """The scenario's rules, then an answer with the text of the request."""
    return scenario.rules + ["answer;delay=100ms"]
