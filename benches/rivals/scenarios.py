"""What happens to the models, as scripts of Everypage's scripted provider (`everypage dev provider`)."""

from __future__ import annotations

import json
from dataclasses import dataclass

import paper

# The chain that everybody is given who can use one; who can't is given the first.
MODELS = ["gpt-4o", "gpt-4o-mini", "claude-sonnet-4-5", "claude-opus-4-1"]

PAGES = len(paper.HARBOURS)
BAD_PAGE = 4
DEADLINE = 20
REQUESTS = 200
AT_ONCE = 20
# What a process may take to start and to end, beside its work.
GRACE = 1
# A run that is still going after so many deadlines is killed.
PATIENCE = 3
# What every tool that has such a setting is given at its best: several models fit into a deadline.
CALL_TIMEOUT = 2


@dataclass(frozen=True)
class Scenario:
    name: str
    title: str
    rules: list[str]
    # Models from which nothing good comes throughout.
    dead: list[str]


DOCUMENTS = [
    Scenario("well", "all well", [], []),
    Scenario("page", f"page {BAD_PAGE} fails everywhere", [f"shape={paper.shape(BAD_PAGE)}=500"], []),
    Scenario("outage", "every model answers 503", ["503"], MODELS),
    Scenario("rubbish", "first model repeats one line", [f"model={MODELS[0]}=loop"], MODELS[:1]),
    Scenario("limited", "first 20 calls get 429, try in 2 s", ["first=20=429;retry-after=2"], []),
    Scenario("first-hangs", "first model hangs", [f"model={MODELS[0]}=hang"], MODELS[:1]),
    Scenario("all-hang", "every model hangs", ["hang"], MODELS),
]

GATEWAYS = [
    Scenario("well", "all well", [], []),
    Scenario("two-down", "first two models answer 503", [f"model={name}=503" for name in MODELS[:2]], MODELS[:2]),
    Scenario("two-hang", "first two models hang", [f"model={name}=hang" for name in MODELS[:2]], MODELS[:2]),
    Scenario("outage", "every model answers 503", ["503"], MODELS),
]

# olmOCR's own model begins each page with this, and olmOCR wants it.
FRONT_MATTER = (
    "---\nprimary_language: en\nis_rotation_valid: True\nrotation_correction: 0\n"
    "is_table: False\nis_diagram: False\n---\n"
)


def document_script(scenario: Scenario, front_matter: bool) -> list[str]:
    """The scenario's rules, then each page's answer, known by the shape of its image."""
    before = FRONT_MATTER if front_matter else ""
    answers = [
        f"shape={paper.shape(page)}=text={json.dumps(before + paper.answer(page))};delay=300ms"
        for page in range(1, PAGES + 1)
    ]
    return scenario.rules + answers


def gateway_script(scenario: Scenario) -> list[str]:
    """The scenario's rules, then the request's own words."""
    return scenario.rules + ["answer;delay=100ms"]
