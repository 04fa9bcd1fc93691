"""What the benchmark needs: Everypage itself, poppler, and each rival from PyPI in an environment of its own."""

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

# Pinned, with all that they bring along in constraints/: figures must not change because a package did.
RIVALS = {"py-zerox": "0.0.7", "olmocr": "0.4.27", "litellm": "1.106.2", "tensorzero": "2026.6.0"}


def everypage() -> Path:
    return Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target").absolute() / "release" / "everypage"


def python(rival: str) -> Path:
    return CACHE / f"{rival}-{RIVALS[rival]}" / "bin" / "python"


def all_of_it() -> None:
    if sys.version_info < (3, 11):
        sys.exit(f"benches/rivals: olmOCR and py-zerox need Python 3.11 or newer, this is {sys.version.split()[0]}")
    subprocess.run([ROOT / "everypage", "--version"], check=True, stdout=subprocess.DEVNULL)
    # py-zerox and olmOCR call poppler's programs; Debian keeps what `venv` needs in a package of its own.
    _debian("poppler-utils", there=bool(shutil.which("pdftoppm")))
    _debian("python3-venv", there=bool(importlib.util.find_spec("ensurepip")))
    for rival in RIVALS:
        _environment(rival)


def _debian(package: str, there: bool) -> None:
    if there:
        return
    say(f"installing {package}")
    sudo = [] if os.geteuid() == 0 else ["sudo"]
    subprocess.run([*sudo, "apt-get", "update", "-qq"], check=True)
    command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
    subprocess.run([*sudo, *command], check=True, stdout=subprocess.DEVNULL)


def _environment(rival: str) -> None:
    folder = python(rival).parent.parent
    if (folder / "done").exists():
        return
    package = f"{rival}=={RIVALS[rival]}"
    say(f"installing {package} into {folder.relative_to(ROOT)}")
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, package, "--constraint", HERE / "constraints" / f"{rival}.txt"], check=True)
    (folder / "done").touch()


def say(what: str) -> None:
    print(what, file=sys.stderr, flush=True)
