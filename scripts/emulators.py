"""What `emulator` and `cloud` have in common: one emulator of AWS, installed when missing, that lives as
long as a given process. It listens on a free port of the loopback address and keeps nothing.

    SCRIPT            lives as long as the process that called
    SCRIPT PID        lives as long as process PID; all who name it share one
    SCRIPT install    only installs

While it runs, its folder is .cache/NAME/run/PID; after its end the logs are in .cache/NAME/last.
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

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass
class Emulator:
    name: str
    package: str
    command: list[str]  # in the virtual environment's bin
    health: str
    ready_within_seconds: int
    environment: typing.Callable[[pathlib.Path, int], dict[str, str]]  # of its folder and its port
    python: tuple[int, int] = (3, 9)  # the oldest it runs on

    @property
    def home(self) -> pathlib.Path:
        return ROOT / ".cache" / self.name

    @property
    def venv(self) -> pathlib.Path:
        return self.home / self.package.replace("==", "-")

    def folder(self, keeper: int) -> pathlib.Path:
        return self.home / "run" / str(keeper)

    def install(self) -> None:
        if (self.venv / "installed").exists():
            return
        print(f"installing {self.package}", file=sys.stderr)
        shutil.rmtree(self.venv, ignore_errors=True)
        made = subprocess.run([python(self.python), "-m", "venv", self.venv], stdout=sys.stderr)
        if made.returncode:
            sys.exit("python3 can't make a virtual environment; on Debian: apt-get install python3-venv")
        pip = [self.venv / "bin" / "pip", "install", "--quiet", "--disable-pip-version-check", self.package]
        subprocess.run(pip, check=True, stdout=sys.stderr)
        (self.venv / "installed").touch()

    def answers(self, endpoint: str) -> bool:
        try:
            with urllib.request.urlopen(endpoint + self.health, timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def start(self, keeper: int) -> str:
        """Starts a guard of its own session, which starts the emulator and ends it with its keeper."""
        port, folder = free_port(), self.folder(keeper)
        log = folder / "logs" / "emulator"
        shutil.rmtree(folder, ignore_errors=True)
        log.parent.mkdir(parents=True)
        environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": str(folder),
            "TMPDIR": str(folder),
        } | self.environment(folder, port)
        with open(log, "w") as output:
            guard = subprocess.Popen(
                [sys.executable, sys.argv[0], "guard", str(keeper)], env=environment,
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
            )
        endpoint = f"http://127.0.0.1:{port}"
        give_up = time.monotonic() + self.ready_within_seconds
        while not self.answers(endpoint):
            if guard.poll() is not None or time.monotonic() > give_up:
                guard.terminate()
                guard.wait()
                sys.exit(f"the emulator did not start; see {self.home / 'last' / 'emulator'}")
            time.sleep(0.1)
        (folder / "endpoint").write_text(endpoint)
        return endpoint

    def guard(self, keeper: int) -> None:
        folder = self.folder(keeper)
        # A group of its own, so that its end takes its helpers along.
        emulator = subprocess.Popen([self.venv / "bin" / self.command[0], *self.command[1:]], start_new_session=True)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit())
        try:
            while emulator.poll() is None and alive(keeper):
                time.sleep(0.5)
        finally:
            kill_group(emulator.pid)
            emulator.wait()
            # Each process of a function leads a group, and its file is named by it.
            for function in folder.glob("functions/*/*"):
                kill_group(int(function.name))
            last = self.home / "last"
            shutil.rmtree(last, ignore_errors=True)
            (folder / "logs").rename(last)
            shutil.rmtree(folder, ignore_errors=True)

    def main(self) -> None:
        arguments = sys.argv[1:]
        if arguments[:1] == ["guard"]:
            return self.guard(int(arguments[1]))
        self.home.mkdir(parents=True, exist_ok=True)
        # One at a time: tests of one run ask at the same moment.
        with open(self.home / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.install()
            if arguments == ["install"]:
                return
            keeper = int(arguments[0]) if arguments else os.getppid()
            known = self.folder(keeper) / "endpoint"
            endpoint = known.read_text() if known.exists() else ""
            print(endpoint if endpoint and self.answers(endpoint) else self.start(keeper))


def python(oldest: tuple[int, int]) -> str:
    if sys.version_info >= oldest:
        return sys.executable
    names = [f"python3.{minor}" for minor in range(oldest[1], oldest[1] + 5)]
    found = [shutil.which(name) for name in names]
    found += sorted(pathlib.Path.home().glob(".pyenv/versions/3.*/bin/python3"))
    check = f"import sys; sys.exit(sys.version_info < {oldest})"
    for candidate in filter(None, found):
        # Pyenv has a command for every version, and most of them only complain.
        if subprocess.run([candidate, "-c", check], stderr=subprocess.DEVNULL).returncode == 0:
            return str(candidate)
    sys.exit("no Python {}.{} or newer; python3 is {}.{}".format(*oldest, *sys.version_info))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def kill_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except ProcessLookupError:
        pass


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
        return True
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
