"""Repairs of localemu 1.3.2 where it differs from AWS in something the stack needs, or is too slow for a test. Each
function below changes one thing, and its comment says why.
"""

import copy
import datetime
import functools
import re
import threading
import time
import uuid

from localemu.aws.connect import ClientFactory
from localemu.runtime import hooks
from localemu.services.lambda_.event_source_mapping.esm_worker import EsmWorker
from localemu.services.lambda_.event_source_mapping.pollers.poller import EmptyPollResultsException
from localemu.services.lambda_.event_source_mapping.pollers.sqs_poller import SqsPoller
from localemu.services.lambda_.invocation.execution_environment import ExecutionEnvironment
from localemu.services.lambda_.invocation.version_manager import LambdaVersionManager
from localemu.services.sqs.provider import MessageMoveTaskManager
from localemu.services.stepfunctions.asl.component.common.path import result_path
from localemu.services.stepfunctions.asl.component.intrinsic.function.statesfunction.generic.string_format import (
    StringFormat,
)
from localemu.services.stepfunctions.asl.component.state.state_wait.wait_function.timestamp import Timestamp
from localemu.services.stepfunctions.asl.utils import json_path
from localemu.services.stepfunctions.backend.execution_worker import ExecutionWorker

from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.table import Table
from werkzeug.routing import Rule

from .http_api import serve

# How many batches of one queue are processed concurrently; an event source mapping on AWS starts with five.
POLLERS = 4
LONG_POLL_SECONDS = 5


@hooks.on_infra_start()
def apply() -> None:
    format_with_braces()
    wait_until()
    stop_just_started()
    poll_concurrently()
    plain_credentials()
    parse_paths_once()
    no_copies_of_logs()
    redrive_as_new_messages()
    isolate_transactions()
    compile_routes_in_turn()
    serve()


def format_with_braces() -> None:
    """States.Format fails for text with escaped braces: localemu passes it to Python's format."""

    def evaluate(self, env):
        self.argument_list.eval(env=env)
        template, *values = env.stack.pop()
        # One backslash before a brace, or two: the text is still escaped as in the JSON.
        first, *rest = [re.sub(r"\\+(?=[{}'])", "", part) for part in template.split(self._DELIMITER)]
        filled = [self._to_str_repr(value) + part for value, part in zip(values, rest, strict=True)]
        env.stack.append(first + "".join(filled))

    StringFormat._eval_body = evaluate


def wait_until() -> None:
    """A Wait until a time ends up to two seconds early, and reads UTC as local time."""

    def until(self, env) -> datetime.datetime:
        self.string.eval(env=env)
        text = env.stack.pop()
        if not self._is_valid_timestamp_pattern(text):
            raise ValueError(self._create_failure_event(env, text))
        # Like AWS, which ignores fractions of a second.
        return datetime.datetime.fromisoformat(text).replace(microsecond=0)

    def evaluate(self, env):
        end = until(self, env)
        while env.is_running():
            left = (end - datetime.datetime.now(datetime.UTC)).total_seconds()
            if left <= 0:
                return
            env.program_state_event.wait(left)

    Timestamp._eval_body = evaluate


def stop_just_started() -> None:
    """StopExecution fails for an execution that has just been started: its thread does not exist yet."""
    stop = ExecutionWorker.stop

    def wait_and_stop(self, *args, **kwargs):
        while self.env is None:
            time.sleep(0.01)
        return stop(self, *args, **kwargs)

    ExecutionWorker.stop = wait_and_stop


def poll_concurrently() -> None:
    """An event source mapping reads one batch at a time, then sleeps a second, or up to ten after an empty poll."""
    first_loop = EsmWorker.poller_loop

    def loop(worker: EsmWorker) -> None:
        while not worker._shutdown_event.is_set():
            try:
                worker.poller.poll_events()
            except EmptyPollResultsException:
                pass  # the long poll has already waited
            except Exception:
                worker._shutdown_event.wait(1)

    def loops(self, *args, **kwargs):
        if isinstance(self.poller, SqsPoller):
            self.poller.maximum_batching_window = LONG_POLL_SECONDS
            limit = (self.esm_config.get("ScalingConfig") or {}).get("MaximumConcurrency", POLLERS)
            for _ in range(min(limit, POLLERS)):
                threading.Thread(target=loop, args=[self], daemon=True).start()
        return first_loop(self, *args, **kwargs)

    EsmWorker.poller_loop = loops


def plain_credentials() -> None:
    """Every environment and every task requests a role's credentials from STS, which are never checked here, and
    creates a client with them, which takes longer than its call."""
    credentials = {"AccessKeyId": "test", "SecretAccessKey": "test", "SessionToken": "test"}
    ExecutionEnvironment.get_credentials = lambda _self: credentials

    def with_test_credentials(self, *, role_arn, service_principal=None, session_name=None, **where):
        return self(aws_access_key_id="test", aws_secret_access_key="test", **where)

    ClientFactory.with_assumed_role = with_test_credentials


def parse_paths_once() -> None:
    """Each use of a JSONPath creates a new parser, which takes some 20 ms, and parses the path again."""
    json_path.parse = functools.lru_cache(1000)(json_path.parse)
    result_path.parse = functools.lru_cache(1000)(result_path.parse)


def no_copies_of_logs() -> None:
    """localemu copies each invocation's log to CloudWatch Logs; here the functions' logs are files."""
    LambdaVersionManager.store_logs = lambda _self, **_: None


def redrive_as_new_messages() -> None:
    """A message that StartMessageMoveTask moves keeps its ID and its receive count; on AWS it is a new message, with a
    new ID and a receive count of zero."""
    find = MessageMoveTaskManager._get_queue_by_arn

    class Renewing:
        def __init__(self, queue):
            self.queue = queue

        def __getattr__(self, name):
            return getattr(self.queue, name)

        def put(self, message, **options):
            fresh = {name: message["Attributes"][name] for name in ("SenderId", "SentTimestamp") if name in message["Attributes"]}
            return self.queue.put(message={**message, "MessageId": str(uuid.uuid4()), "Attributes": fresh}, **options)

    MessageMoveTaskManager._get_queue_by_arn = lambda self, arn: Renewing(find(self, arn))


def isolate_transactions() -> None:
    """A transaction makes a deep copy of its table for each of its items, and fails when another call writes or reads a
    missing key during the copy: a read adds an empty partition."""
    lock = threading.RLock()

    def exclusive(call):
        @functools.wraps(call)
        def locked(*args, **kwargs):
            with lock:
                return call(*args, **kwargs)

        return locked

    for name in ("get_item", "query", "scan", "put_item", "update_item", "delete_item", "transact_write_items"):
        setattr(DynamoDBBackend, name, exclusive(getattr(DynamoDBBackend, name)))

    def copy_with_items(table, _memo):
        # Restored if the transaction fails. Items are replaced and never modified, so they need no copy.
        twin = copy.copy(table)
        twin.items = table.items.copy()
        twin.items.update({key: dict(part) for key, part in table.items.items() if isinstance(part, dict)})
        return twin

    Table.__deepcopy__ = copy_with_items


def compile_routes_in_turn() -> None:
    """Python 3.11 can fail when two threads build syntax trees at the same time ("AST constructor recursion depth
    mismatch"). Werkzeug builds one for each route, and the failed call was an invocation: its messages waited for
    their visibility timeout."""
    lock = threading.Lock()
    compile_route = Rule._compile_builder

    def compile_alone(self, *args, **kwargs):
        with lock:
            return compile_route(self, *args, **kwargs)

    Rule._compile_builder = compile_alone
