"""What `emulator` and `cloud` share: an AWS emulator that is installed when missing and runs as long as a given
process, its owner. It listens on a free port of the loopback address and stores nothing permanently.

    SCRIPT            runs as long as the process that called the script
    SCRIPT PID        runs as long as process PID; every caller that names the same PID gets the same emulator
    SCRIPT install    only installs

While it runs, its folder is .cache/NAME/run/PID; after it has ended, the logs are in .cache/NAME/last.
"""

import dataclasses
import fcntl
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import typing
import urllib.request

import python_packages

ROOT = python_packages.ROOT


@dataclasses.dataclass
class Emulator:
    name: str
    package: str
    command: list[str]  # its first word is a program of the virtual environment
    health: str
    start_timeout_seconds: int
    environment: typing.Callable[[pathlib.Path, int], dict[str, str]]  # from its folder and its port
    prepare: typing.Callable[[pathlib.Path], None] | None = None  # changes the new virtual environment

    @property
    def home(self) -> pathlib.Path:
        return python_packages.CACHE / self.name

    def folder(self, owner: int) -> pathlib.Path:
        return self.home / "run" / str(owner)

    def install(self) -> pathlib.Path:
        return python_packages.install(self.name, [self.package], self.prepare)

    def is_healthy(self, endpoint: str) -> bool:
        try:
            with urllib.request.urlopen(endpoint + self.health, timeout=2) as response:
                return response.status == 200
        except OSError:
            return False

    def start(self, owner: int) -> str:
        """Starts a supervisor in a session of its own, which runs the emulator until the owner ends."""
        port, folder = free_port(), self.folder(owner)
        log = folder / "logs" / "emulator"
        shutil.rmtree(folder, ignore_errors=True)
        log.parent.mkdir(parents=True)
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(folder),
            "TMPDIR": str(folder),
        } | self.environment(folder, port)
        with open(log, "w") as output:
            supervisor = subprocess.Popen(
                [sys.executable, sys.argv[0], "supervise", str(owner)], env=environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )
        endpoint = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + self.start_timeout_seconds
        while not self.is_healthy(endpoint):
            if supervisor.poll() is not None or time.monotonic() > deadline:
                supervisor.terminate()
                supervisor.wait()
                sys.exit(f"the emulator did not start; see {self.home / 'last' / 'emulator'}")
            time.sleep(0.1)
        (folder / "endpoint").write_text(endpoint)
        return endpoint

    def supervise(self, owner: int) -> None:
        folder, programs = self.folder(owner), self.install() / "bin"
        # A process group of its own, so that ending it also ends its child processes.
        emulator = subprocess.Popen([programs / self.command[0], *self.command[1:]], start_new_session=True)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        try:
            while emulator.poll() is None and is_running(owner):
                time.sleep(0.5)
        finally:
            kill_group(emulator.pid)
            emulator.wait()
            # Each process of a function leads a process group, and its file is named after it.
            for function in folder.glob("functions/*/*"):
                kill_group(int(function.name))
            last = self.home / "last"
            shutil.rmtree(last, ignore_errors=True)
            (folder / "logs").rename(last)
            shutil.rmtree(folder, ignore_errors=True)

    def main(self) -> None:
        arguments = sys.argv[1:]
        if arguments[:1] == ["supervise"]:
            return self.supervise(int(arguments[1]))
        self.install()
        if arguments == ["install"]:
            return
        # One caller at a time: the tests of one run all call at the same moment.
        with open(self.home / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            owner = int(arguments[0]) if arguments else os.getppid()
            known = self.folder(owner) / "endpoint"
            endpoint = known.read_text() if known.exists() else ""
            print(endpoint if endpoint and self.is_healthy(endpoint) else self.start(owner))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        pass


def is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
        return True
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
