"""Rows by turns: each has its own process, which sleeps while the others are measured.

A row is an object with ``prepare()``, ``turn()`` and ``row()``. The first is not measured. The
second measures a little and returns whether there is more to do. The third returns the figures of
all turns. A request is the name of a method and its arguments, all words.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile

import environment


class LeftOut(Exception):
    """The reason why a row is not measured."""


class Worker:
    """A row in another process, which starts at once and answers requests."""

    def __init__(self, command: list[str], name: str, may_die: bool):
        self._name, self._may_die = name, may_die
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115, closed at the end
        self._process = subprocess.Popen(
            [sys.executable, *command],
            env=environment.clean(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def ask(self, what: str):
        """The answer of ``serve``; raises LeftOut, or SystemExit if the process has failed."""
        try:
            self._process.stdin.write(what + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            self._failed()
        reported = json.loads(answer)
        if "left_out" in reported:
            raise LeftOut(reported["left_out"])
        return reported["answer"]

    def _failed(self):
        code = self._process.wait()
        if code < 0 and self._may_die:
            raise LeftOut(f"it died of {signal.Signals(-code).name}")
        self._errors.seek(0)
        sys.exit(f"{self._name} failed:\n{self._errors.read()}")

    def end(self) -> None:
        """End the process, after its current request."""
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                stream.close()
        self._process.wait()
        self._errors.close()


def by_turns(workers: dict) -> dict:
    """The figures of each worker, or LeftOut with the reason."""
    made: dict = {}

    def asked(key, what: str):
        try:
            return workers[key].ask(what)
        except LeftOut as reason:
            made[key] = reason
            return None

    try:
        for key in workers:
            asked(key, "prepare")
        going = [key for key in workers if key not in made]
        while going:
            going = [key for key in going if asked(key, "turn")]
        for key in workers:
            row = None if key in made else asked(key, "row")
            made.setdefault(key, row)
    finally:
        for worker in workers.values():
            worker.end()
    return {key: made[key] for key in workers}


def serve(make) -> None:
    """The main function of such a process: ``make()`` is the row."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # for output of libraries
    row = None
    for line in sys.stdin:
        try:
            row = row or make()
            method, *arguments = line.split()
            reported = {"answer": getattr(row, method)(*arguments)}
        except LeftOut as reason:
            reported = {"left_out": str(reason)}
        print(json.dumps(reported), file=answers, flush=True)
