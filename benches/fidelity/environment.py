"""The Python environment with the peers, in .cache/fidelity; versions are pinned in requirements.txt."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = ROOT / ".cache" / "fidelity"
PYTHON = CACHE / "venv" / "bin" / "python"
REQUIREMENTS = HERE / "requirements.txt"
# Each peer and the package that has its version; since 2.0, PyMuPDF contains pymupdf4llm and its layout model.
PEERS = {"liteparse": "liteparse", "pdf_inspector": "pdf-inspector", "pymupdf4llm": "pymupdf"}
# English and orientation, for the peers' Tesseract.
TESSDATA = CACHE / "tessdata"
LANGUAGES = ("tesseract-ocr-eng", "tesseract-ocr-osd")


def log(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def enter() -> None:
    """Continues this program in the environment, which is made if it is missing or has other versions."""
    installed = CACHE / "venv" / "requirements.txt"
    wanted = REQUIREMENTS.read_text()
    if not installed.exists() or installed.read_text() != wanted:
        log(f"installing {', '.join(wanted.split())} into {PYTHON.parent.parent.relative_to(ROOT)}")
        if not PYTHON.exists():
            subprocess.run([sys.executable, "-m", "venv", PYTHON.parent.parent], check=True)
        pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", REQUIREMENTS]
        subprocess.run(pip, check=True)
        installed.write_text(wanted)
    if not TESSDATA.exists():
        _install_tessdata()
    if Path(sys.prefix) != PYTHON.parent.parent:
        os.execv(PYTHON, [str(PYTHON), *sys.argv])


def _install_tessdata() -> None:
    """Debian's language data, without installing its Tesseract."""
    log(f"downloading {', '.join(LANGUAGES)} into {TESSDATA.relative_to(ROOT)}")
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["apt-get", "download", "-qq", *LANGUAGES], cwd=folder, check=True)
        for package in Path(folder).glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, folder], check=True)
        TESSDATA.mkdir()
        for data in Path(folder).rglob("*.traineddata"):
            shutil.copy(data, TESSDATA)


def versions() -> dict[str, str]:
    return dict(line.split("==") for line in REQUIREMENTS.read_text().split())
