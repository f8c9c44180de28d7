"""What the Python programs share: collecting checks, running each, printing its line.

A check is a function; its docstring is its line. Each gets a connection of its own, so that one failure does not break the rest.
"""

import asyncio
import contextlib
import inspect
import os
import sys
import time
from urllib.parse import urlsplit

URL = os.environ["PGSLUICE_URL"]
WHERE = urlsplit(URL)
CHECKS = []


def check(function):
    CHECKS.append(function)
    return function


@contextlib.contextmanager
def fails(*errors):
    """The block must end with one of these errors."""
    try:
        yield
    except errors:
        return
    raise AssertionError("no " + " or ".join(error.__name__ for error in errors))


@contextlib.contextmanager
def within(seconds):
    started = time.monotonic()
    yield
    assert time.monotonic() - started < seconds, f"took {time.monotonic() - started:.1f} s"


def report(function, error=None):
    if error is None:
        print(f"ok   {function.__doc__}", flush=True)
    else:
        place = next((f"line {frame.lineno}" for frame in reversed(inspect.getinnerframes(error.__traceback__)) if "examples" in frame.filename), "")
        words = [place, f"{type(error).__name__}: {error}", *getattr(error, "__notes__", ())]
        print(f"FAIL {function.__doc__}: {', '.join(filter(None, words))}".replace("\n", " | "), flush=True)


def run(connect):
    """Runs every check; the exit code is 1 if any failed."""
    failed = 0
    for function in CHECKS:
        try:
            with contextlib.closing(connect()) as connection:
                function(connection)
            report(function)
        except Exception as error:
            failed = 1
            report(function, error)
    sys.exit(failed)


def run_async(connect, limit=60):
    """The same for coroutines."""

    async def one(function):
        connection = await connect()
        try:
            await asyncio.wait_for(function(connection), limit)
        finally:
            await asyncio.wait_for(connection.close(), limit)

    async def every():
        failed = 0
        for function in CHECKS:
            try:
                await one(function)
                report(function)
            except BaseException as error:
                failed = 1
                report(function, error)
        return failed

    sys.exit(asyncio.run(every()))
