"""The Python environments in .cache/fidelity: one that makes and scores documents, and one that has the peers too."""

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
# Without the peers, which are 400 MB.
SMALL_PYTHON = CACHE / "venv-small" / "bin" / "python"
REQUIREMENTS, PEER_REQUIREMENTS = HERE / "requirements.txt", HERE / "requirements-peers.txt"
# Each peer and the package that has its version; since 2.0, PyMuPDF contains pymupdf4llm and its layout model.
PEERS = {"liteparse": "liteparse", "pdf_inspector": "pdf-inspector", "pymupdf4llm": "pymupdf"}
# English and orientation, for the peers' Tesseract.
TESSDATA = CACHE / "tessdata"
LANGUAGES = ("tesseract-ocr-eng", "tesseract-ocr-osd")


def log(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def enter(with_peers: bool) -> None:
    """Continues this program in an environment, which is made if it is missing or has other versions."""
    python = PYTHON if with_peers else SMALL_PYTHON
    folder = python.parent.parent
    files = [REQUIREMENTS, PEER_REQUIREMENTS] if with_peers else [REQUIREMENTS]
    wanted = "".join(file.read_text() for file in files)
    installed = folder / "requirements.txt"
    if not installed.exists() or installed.read_text() != wanted:
        log(f"installing {', '.join(wanted.split())} into {folder.relative_to(ROOT)}")
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, *(word for file in files for word in ("--requirement", file))], check=True)
        installed.write_text(wanted)
    if with_peers and not TESSDATA.exists():
        _install_tessdata()
    if Path(sys.prefix) != folder:
        os.execv(python, [str(python), *sys.argv])


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
    files = (REQUIREMENTS, PEER_REQUIREMENTS)
    return dict(line.split("==") for file in files for line in file.read_text().split())
