"""Fixtures: the real program with a scripted provider."""

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[3]


def load(name: str, path: pathlib.Path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# The console's tests start the program in the same way. Under another name: `everypage` is the package.
server = load("everypage_server", ROOT / "tests" / "console" / "everypage.py")


@pytest.fixture
def serve():
    """Starts servers that stop with the test: serve("rule of the provider", SETTING="value")."""
    servers = []

    def make(*rules, **options):
        servers.append(server.Everypage(*rules, **options))
        return servers[-1]

    yield make
    for one in servers:
        one.stop()


@pytest.fixture(scope="session")
def calm():
    """A shared server without failures."""
    one = server.Everypage()
    yield one
    one.stop()


@pytest.fixture(scope="session")
def sample() -> pathlib.Path:
    return server.SAMPLE


@pytest.fixture(scope="session")
def variant():
    return server.variant


@pytest.fixture(scope="session")
def example():
    return lambda name: load(name, ROOT / "examples" / f"{name}.py")
