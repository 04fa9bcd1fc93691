"""Installs pinned packages from PyPI into a virtual environment under .cache, once per clone.

Uses uv, which is itself installed from PyPI. For the largest package (localemu) uv takes 11 seconds of CPU
time and pip 91.
"""

import contextlib
import fcntl
import os
import pathlib
import shutil
import subprocess
import sys
import typing

ROOT = pathlib.Path(__file__).resolve().parent.parent
CACHE = ROOT / ".cache"
UV = "uv==0.13.8"
# What the checks are written for: Debian 12 has it.
OLDEST_PYTHON = (3, 11)


def virtual_environment(name: str, packages: list[str], cache: pathlib.Path = CACHE) -> pathlib.Path:
    """Where `install` puts these packages."""
    return cache / name / "-".join(packages).replace("==", "-")


def install(
    name: str,
    packages: list[str],
    prepare: typing.Callable[[pathlib.Path], None] | None = None,
    cache: pathlib.Path = CACHE,
) -> pathlib.Path:
    """Installs the packages unless they are there, and returns their virtual environment.

    `prepare` changes the new environment before it is first used. Processes that install the same packages
    at the same time take turns.
    """
    if sys.version_info < OLDEST_PYTHON:
        sys.exit("the checks need Python {}.{} or newer; python3 is {}.{}".format(*OLDEST_PYTHON, *sys.version_info))
    folder = virtual_environment(name, packages, cache)
    with locked(cache / name):
        # Without its Python (removed, or replaced by an upgrade of the system) an environment is useless.
        if (folder / "installed").exists() and (folder / "bin" / "python").exists():
            return folder
        print(f"installing {', '.join(packages)}", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        uv("venv", "--quiet", "--python", sys.executable, str(folder))
        uv("pip", "install", "--quiet", "--python", str(folder / "bin" / "python"), *packages)
        if prepare:
            prepare(folder)
        (folder / "installed").touch()
    return folder


def uv(*arguments: str) -> None:
    # A proxy's certificate is in the system's store and not in the one that uv brings.
    environment = os.environ | {"UV_SYSTEM_CERTS": "true", "UV_PYTHON_DOWNLOADS": "never"}
    ran = subprocess.run([installed_uv(), *arguments], env=environment, stdout=sys.stderr)
    if ran.returncode:
        sys.exit(f"uv {arguments[0]} failed (another index than PyPI: set UV_DEFAULT_INDEX)")


def installed_uv() -> pathlib.Path:
    folder = virtual_environment("uv", [UV])
    program = folder / "bin" / "uv"
    with locked(CACHE / "uv"):
        if not program.exists():
            shutil.rmtree(folder, ignore_errors=True)
            if subprocess.run([sys.executable, "-m", "venv", folder], stdout=sys.stderr).returncode:
                sys.exit("python3 can't make a virtual environment; on Debian: apt-get install python3-venv")
            pip = [folder / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", UV]
            subprocess.run(pip, check=True, stdout=sys.stderr)
    return program


@contextlib.contextmanager
def locked(folder: pathlib.Path):
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "install.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
