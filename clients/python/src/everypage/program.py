"""A server of its own: the program `everypage`, started on a free port of this machine."""

from __future__ import annotations

import atexit
import os
import pathlib
import shutil
import subprocess
import sysconfig

from .errors import ProgramError

#: The time that the server has to end its work when it is stopped.
STOP_TIMEOUT = 30


def find() -> str:
    """The program: `EVERYPAGE_PROGRAM`, the one that this package was installed with, or the one in the PATH."""
    if named := os.environ.get("EVERYPAGE_PROGRAM"):
        return named
    installed = pathlib.Path(sysconfig.get_path("scripts")) / "everypage"
    if installed.exists():
        return str(installed)
    if found := shutil.which("everypage"):
        return found
    raise ProgramError(
        "the program everypage is not installed: install it, name it in EVERYPAGE_PROGRAM, "
        "or use a server: Everypage(url=…) or EVERYPAGE_URL"
    )


class LocalServer:
    """`everypage serve`, until it is stopped or this process exits."""

    def __init__(self) -> None:
        program = find()
        command = [program, "serve", "--listen", "127.0.0.1:0", "--quiet"]
        try:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        except OSError as error:
            raise ProgramError(f"{program} can't be started: {error}") from error
        atexit.register(self.stop)
        self.url = self._process.stdout.readline().strip()
        if not self.url:
            self.stop()
            raise ProgramError(f"`{' '.join(command)}` ended with code {self._process.returncode}; its reason is above")

    def stop(self) -> None:
        atexit.unregister(self.stop)
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
