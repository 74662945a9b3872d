"""How far long calls are: ``set_progress``."""

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from meshsolve import _log
from meshsolve._library.errors import wrong_type


class Progress(NamedTuple):
    """How far a call is, for the function of ``set_progress``.

    Attributes:
      name: the routine, as ``last_call`` names it.
      n: the order of A, or its columns.
      stage: what the call does now, one of ``last_call``'s phases; "done" at its end.
      share: of the work of the call, 0 to 1.
      elapsed: seconds since the work began, when all devices of this process have come.
      remaining: an estimate of the seconds to its end.

    Examples:
      >>> ms.set_progress(lambda progress: print(progress.name, f"{progress.share:.0%}"))
      >>> ms.set_progress(False)
    """

    name: str
    n: int
    stage: str
    share: float
    elapsed: float
    remaining: float


def set_progress(show: bool | Callable[[Progress], object]) -> None:
    """Show how far calls are that take longer than a second.

    A bar has the share of the work, not of the steps: the last steps of a factorisation are short.
    It moves about once a second. Times that remain assume that all work takes equally long. On
    CUDA devices it moves when the devices have done the work. There, a factorisation by a library
    of the vendor is one step.

    Args:
      show: True: a bar of ``tqdm``, in notebooks too, if that is installed; else lines on standard
        error. False: nothing. A function: it gets a ``Progress`` each time, on a thread of
        meshsolve. An error of it goes to the log, and ends the reports.

    Raises:
      TypeError: something else.

    Examples:
      >>> ms.set_progress(True)
      >>> ms.set_progress(False)
    """
    if not isinstance(show, bool) and not callable(show):
        expected, remedy = "True, False or a function", "give lambda progress: ..."
        raise wrong_type("set_progress", "show", expected, type(show).__name__, remedy)
    if show is False:
        return _log.show(None)
    return _log.show(_Reports(_shown_by_default() if show is True else show))


class _Reports:
    """Events as reports to a function."""

    def __init__(self, tell: Callable[[Progress], object]) -> None:
        self._tell: Callable[[Progress], object] | None = tell
        # Calls that have been reported.
        self._open: set[tuple[str, int]] = set()

    def __call__(self, event: _log.Event) -> None:
        if isinstance(event, tuple):
            name, n, stage, share, seconds = event
            self._open.add((name, n))
            remaining = seconds * (1 - share) / share if share else float("inf")
            self._report(Progress(name, n, stage, share, seconds, remaining))
        elif (call := (event["routine"], event["n"])) in self._open:
            self._open.discard(call)
            seconds = dict(event["seconds"])
            took = seconds["total"] - seconds["wait"]
            self._report(Progress(*call, "done", 1.0, took, 0.0))

    def _report(self, progress: Progress) -> None:
        try:
            if self._tell is not None:
                self._tell(progress)
        except Exception:
            self._tell = None
            _log.logger.exception("the function of meshsolve.set_progress has failed")


def _shown_by_default() -> Callable[[Progress], object]:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return _print
    return _Bars(tqdm)


def _name(progress: Progress) -> str:
    return f"meshsolve {progress.name}, n = {progress.n}"


def _print(progress: Progress) -> None:
    """A line on standard error; on a terminal the last one of a call is written over."""
    _, _, stage, share, elapsed, remaining = progress
    line = f"{_name(progress)}: {100 * share:3.0f} % {stage}, {elapsed:.0f} s"
    line += "" if stage == "done" else f", {remaining:.0f} s left"
    is_terminal = sys.stderr.isatty()
    end = "\n" if stage == "done" or not is_terminal else ""
    print(f"\r{line:79}" if is_terminal else line, end=end, file=sys.stderr, flush=True)


class _Bars:
    """A bar of tqdm for each call."""

    _FORMAT = "{desc}: {percentage:3.0f} %|{bar}| {elapsed} < {postfix}"

    def __init__(self, tqdm: Any) -> None:
        self._tqdm = tqdm
        self._bars: dict[tuple[str, int], Any] = {}

    def __call__(self, progress: Progress) -> None:
        key = progress.name, progress.n
        bar = self._bars.get(key)
        if bar is None:
            name, share = _name(progress), 100 * progress.share
            bar = self._tqdm(total=100, initial=share, desc=name, bar_format=self._FORMAT)
            bar.start_t -= progress.elapsed
            self._bars[key] = bar
        bar.n = 100 * progress.share
        bar.set_postfix_str(f"{progress.remaining:.0f} s, {progress.stage}", refresh=False)
        bar.refresh()
        if progress.stage == "done":
            self._bars.pop(key).close()
