"""The tables in Markdown, made from results.json and from nothing else."""

from __future__ import annotations

from collections.abc import Callable

from figures import megabytes, number, seconds

Row = dict
MARKS = ("<!-- made by benches/rivals/run, from results.json -->", "<!-- end of what benches/rivals/run made -->")


# The second half is not like for like in one thing, and that stands beside it.
NO_DOCUMENT = (
    "LiteLLM Router and TensorZero pass requests on and never see the document: where no model answers they have "
    "nothing to give, while Everypage has the text layer of the PDF. *Read by a model* counts alike for all, and is "
    "0 for all while every model is down."
)


def summary(results: dict) -> str:
    """For the README: every tool once, all scenarios together."""
    return "\n\n".join([
        _made(results),
        _table(SUMMARY, _summed(results["documents"])),
        NO_DOCUMENT,
        _table(SUMMARY, _summed(results["gateways"])),
    ])


def details(results: dict) -> str:
    """For docs/rivals.md: every scenario by itself."""
    parts = [_made(results)]
    for kind, title in (("documents", "Documents"), ("gateways", "Chains of models")):
        for scenario in _scenarios(results[kind]):
            rows = [row for row in results[kind] if row["scenario"] == scenario]
            parts += [f"### {title}: {rows[0]['title']}"]
            parts += [NO_DOCUMENT] if (kind, scenario) == ("gateways", "outage") else []
            parts += [_table(DETAILS, [(row, row["runs"]) for row in rows])]
    return "\n\n".join(parts)


def between_marks(page: str, made: str) -> str:
    """The page with what stands between the marks replaced."""
    begin, end = MARKS
    before, found, rest = page.partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(f"a page has no {begin!r} … {end!r}")
    return f"{before}{begin}\n\n{made}\n\n{end}{after}"


def _made(results: dict) -> str:
    machine = results["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in results["versions"].items())
    return (
        f"Made on {results['date']} by `{results['command']}` with {versions}, on {machine['cores']} cores "
        f"({machine['processor']}) and {machine['memory_gb']} GB of memory, {machine['system']}; load of others "
        f"before each repeat at most {machine['load']}. {_repeats(results['repeats'])}."
    )


def _repeats(count: int) -> str:
    return "Measured once" if count == 1 else f"{count} repeats: medians, with the range where there is one"


# ---- Columns ----------------------------------------------------------------------------------------

# A cell is made of a row and of its runs: for a summary, one sum over all scenarios for each repeat.
Columns = dict[str, Callable[[Row, list[dict]], str]]


def _sum(name: str) -> Callable[[Row, list[dict]], str]:
    return lambda row, runs: number(run[name] for run in runs)


def _of(name: str) -> Callable[[Row, list[dict]], str]:
    return lambda row, runs: f"{number(run[name] for run in runs)} of {row['pages']}"


WHO: Columns = {"": lambda row, runs: f"{row['tool']}, {row['settings']}"}
CALLS: Columns = {
    "calls per page": lambda row, runs: number((run["calls"] / row["pages"] for run in runs), 1),
    "calls to dead models": _sum("calls_to_dead"),
    "peak memory": lambda row, runs: megabytes(run["peak_bytes"] for run in runs),
}
TEXT: Columns = {
    "read by a model": _of("pages_by_model"),
    "pages with text": _of("pages_with_text"),
    "true text, true number": _sum("pages_right"),
    "late": _sum("pages_late"),
}
DETAILS: Columns = {
    **WHO,
    "finished in time": lambda row, runs: f"{sum(run['in_time'] for run in runs)} of {len(runs)}",
    "time": lambda row, runs: seconds(runs),
    **TEXT,
    **CALLS,
}
SUMMARY: Columns = {
    **WHO,
    "models": lambda row, runs: str(row["models"]),
    "finished in time": lambda row, runs: f"{number(run['in_time'] for run in runs)} of {row['scenarios']}",
    **TEXT,
    "all well": lambda row, runs: seconds(row["runs_well"]),
    "longest": lambda row, runs: seconds(runs),
    **CALLS,
}


def _scenarios(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(row["scenario"] for row in rows))


def _summed(rows: list[Row]) -> list[tuple[Row, list[dict]]]:
    """For each contestant and repeat, all its scenarios together."""
    summed = []
    for who in dict.fromkeys((row["tool"], row["settings"]) for row in rows):
        own = [row for row in rows if (row["tool"], row["settings"]) == who]
        repeats = list(zip(*(row["runs"] for row in own)))
        head = own[0] | {
            "pages": sum(row["pages"] for row in own), "scenarios": len(own),
            "runs_well": next(row["runs"] for row in own if row["scenario"] == "well"),
        }
        summed.append((head, [_together(repeat) for repeat in repeats]))
    return summed


def _together(runs: tuple[dict, ...]) -> dict:
    added = ("in_time", "pages_with_text", "pages_right", "pages_by_model", "pages_late", "calls", "calls_to_dead")
    together = {name: sum(run[name] for run in runs) for name in added}
    return together | {
        "seconds": max(run["seconds"] for run in runs),
        "exit_code": None if any(run["exit_code"] is None for run in runs) else 0,
        "peak_bytes": max(run["peak_bytes"] for run in runs),
    }


def _table(columns: Columns, rows: list[tuple[Row, list[dict]]]) -> str:
    lines = [list(columns), ["---", *["---:"] * (len(columns) - 1)]]
    lines += [[cell(row, runs) for cell in columns.values()] for row, runs in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
