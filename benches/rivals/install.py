"""Installs what the benchmark needs: Everypage, poppler, and each other tool from PyPI in its own environment."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = ROOT / ".cache" / "rivals"

# Pinned, with their dependencies in constraints/: figures must not change because a package did.
TOOLS = {"py-zerox": "0.0.7", "olmocr": "0.4.27", "litellm": "1.106.2", "tensorzero": "2026.6.0"}


def everypage() -> Path:
    return Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").absolute() / "release" / "everypage"


def python(tool: str) -> Path:
    return CACHE / f"{tool}-{TOOLS[tool]}" / "bin" / "python"


def install_all() -> None:
    if sys.version_info < (3, 11):
        sys.exit(f"benches/rivals: olmOCR and py-zerox need Python 3.11 or newer, this is {sys.version.split()[0]}")
    subprocess.run([ROOT / "everypage", "--version"], check=True, stdout=subprocess.DEVNULL)
    install_programs()
    for tool in TOOLS:
        install_tool(tool)


def install_programs() -> None:
    # py-zerox and olmOCR call poppler's programs; Debian has what `venv` needs in a separate package.
    _debian("poppler-utils", installed=bool(shutil.which("pdftoppm")))
    _debian("python3-venv", installed=bool(importlib.util.find_spec("ensurepip")))


def install_tool(tool: str) -> None:
    install_environment(python(tool).parent.parent, [f"{tool}=={TOOLS[tool]}"], [tool])


def _debian(package: str, installed: bool) -> None:
    if installed:
        return
    log(f"installing {package}")
    sudo = [] if os.geteuid() == 0 else ["sudo"]
    subprocess.run([*sudo, "apt-get", "update", "-qq"], check=True)
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
    subprocess.run([*sudo, *command], check=True, stdout=subprocess.DEVNULL)


def install_environment(folder: Path, packages: list[str], constraints: list[str]) -> None:
    """Packages in an environment of their own; `constraints` are names of files in constraints/."""
    if (folder / "done").exists():
        return
    log(f"installing {', '.join(packages)} into {folder.relative_to(ROOT)}")
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    files = [HERE / "constraints" / f"{name}.txt" for name in constraints]
    subprocess.run([*pip, *packages, *(part for file in files for part in ("--constraint", file))], check=True)
    (folder / "done").touch()


def log(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
