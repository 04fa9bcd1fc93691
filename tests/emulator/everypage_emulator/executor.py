"""Runs functions of `provided` runtimes as processes. Chosen by LAMBDA_RUNTIME_EXECUTOR=process."""

import logging
import os
import pathlib
import threading

from localemu import config
from localemu.services.lambda_.invocation.lambda_models import FunctionVersion, InvocationResult
from localemu.services.lambda_.invocation.plugins import RuntimeExecutorPlugin
from localemu.services.lambda_.invocation.runtime_executor import RuntimeExecutor

from .process import Process, failure

LOG = logging.getLogger(__name__)
FOLDER = pathlib.Path(os.environ["EMULATOR_FOLDER"])
# Further invocations of a function wait for a free process: a machine has few cores.
PROCESSES_PER_FUNCTION = 8


class Pool:
    """The processes of one version of a function."""

    def __init__(self, version: FunctionVersion):
        name = version.id.function_name
        self.code = version.config.code.get_unzipped_code_location()
        self.folder = FOLDER / "functions" / name
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log = open(FOLDER / "logs" / name, "ab", buffering=0)
        LOG.warning("function %s writes to %s", name, self.log.name)
        self.free = threading.BoundedSemaphore(PROCESSES_PER_FUNCTION)
        self.lock = threading.Lock()
        self.idle: list[Process] = []
        self.all: list[Process] = []

    def acquire(self, environment: dict[str, str]) -> Process:
        with self.lock:
            while self.idle:
                process = self.idle.pop()
                if process.alive():
                    return process
        process = Process(self.code, environment, self.folder, self.log)
        with self.lock:
            self.all = [known for known in self.all if known.alive()] + [process]
        return process

    def release(self, process: Process) -> None:
        with self.lock:
            if process.alive():
                self.idle.append(process)

    def close(self) -> None:
        with self.lock:
            for process in self.all:
                process.kill()
            self.idle, self.all = [], []


POOLS: dict[tuple[str, str], Pool] = {}
POOLS_LOCK = threading.Lock()


def key(version: FunctionVersion) -> tuple[str, str]:
    return version.qualified_arn, version.config.internal_revision


class ProcessExecutor(RuntimeExecutor):
    """Localemu creates one for each concurrent invocation of a function; they share the function's processes."""

    def start(self, env_vars: dict[str, str]) -> None:
        # What differs between a process of this machine and a container. A function's own variables take precedence,
        # as in localemu.
        self.environment = {name: str(value) for name, value in env_vars.items()}
        self.environment |= {
            "LAMBDA_TASK_ROOT": str(self.function_version.config.code.get_unzipped_code_location()),
            "TMPDIR": str(FOLDER),
            "HOME": str(FOLDER),
            "PATH": os.environ["PATH"],
        } | (self.function_version.config.environment or {})

    def invoke(self, payload: dict[str, str], function_timeout: int | None = None) -> InvocationResult:
        with POOLS_LOCK:
            pool = POOLS[key(self.function_version)]
        with pool.free:
            try:
                process = pool.acquire(self.environment)
            except OSError as error:  # no bootstrap, or one for another processor
                ended = failure("Runtime.InvalidEntrypoint", payload["invoke-id"], str(error))
            else:
                ended = process.invoke(
                    payload["invoke-id"], payload["invoked-function-arn"], payload["trace-id"],
                    payload["payload"].encode(), function_timeout or self.function_version.config.timeout,
                )
                pool.release(process)
        return InvocationResult(
            request_id=payload["invoke-id"], payload=ended.body, is_error=ended.failed,
            logs=f"see {pool.log.name}\n",
        )

    def stop(self) -> None:
        """Does nothing: the processes belong to the version."""

    def get_address(self) -> str:
        return "127.0.0.1"

    def get_endpoint_from_executor(self) -> str:
        return "127.0.0.1"

    def get_runtime_endpoint(self) -> str:
        return f"http://127.0.0.1:{config.GATEWAY_LISTEN[0].port}"

    def get_logs(self) -> str:
        return ""

    @classmethod
    def prepare_version(cls, function_version: FunctionVersion) -> None:
        function_version.config.code.prepare_for_execution()
        with POOLS_LOCK:
            POOLS[key(function_version)] = Pool(function_version)

    @classmethod
    def cleanup_version(cls, function_version: FunctionVersion) -> None:
        with POOLS_LOCK:
            pool = POOLS.pop(key(function_version), None)
        if pool:
            pool.close()


class ProcessExecutorPlugin(RuntimeExecutorPlugin):
    name = "process"

    def load(self, *_args, **_kwargs):
        return ProcessExecutor
