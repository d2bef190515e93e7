"""Commands as real processes, which do all they can to stay alive (F11, F13)."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from longhaul.fleet.deadline import DeadlineFile
from longhaul.fleet.descendants import HOME, kill_left_in
from longhaul.fleet.directory import Directory
from longhaul.fleet.keys import Attempt, Place, QueueKeys
from longhaul.fleet.lease import Record
from longhaul.fleet.location import Location
from longhaul.fleet.machine import Identity
from longhaul.fleet.processes import Commands, Group
from longhaul.fleet.runtime import real
from longhaul.fleet.work import Merged, Unconfirmed

LIMIT = 20.0
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

STUBBORN = "import signal; [signal.signal(s, signal.SIG_IGN) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]"
SLEEPS = f"{STUBBORN}; import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)"
# a trial's child, its child, and one in a session of its own; the orchestrator then ends by itself or stays
FAMILY = f"""
import subprocess, sys, time, os
{STUBBORN}
stay, folder = sys.argv[1] == "stay", sys.argv[2]
child = {SLEEPS!r}
parent = 'import subprocess, sys, time; subprocess.Popen([sys.executable, "-c", *sys.argv[1:]]); time.sleep(60)'
names = [os.path.join(folder, name) for name in ("child", "grandchild", "session")]
subprocess.Popen([sys.executable, "-c", child, names[0]])
subprocess.Popen([sys.executable, "-c", parent, child, names[1]])
subprocess.Popen([sys.executable, "-c", child, names[2]], start_new_session=True)
while not all(os.path.exists(name) and os.path.getsize(name) for name in names):
    time.sleep(0.01)
open(os.path.join(folder, "ready"), "w").close()
print("all there", flush=True)
if stay:
    time.sleep(60)
"""


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., tuple[Group, threading.Event]]]:
    """Start Python code as a command; nothing of it outlives the test."""
    groups: list[Group] = []

    def started(code: str, *arguments: str) -> tuple[Group, threading.Event]:
        ended = threading.Event()
        command = [sys.executable, "-c", code, *arguments]
        log = tmp_path / "log.txt"
        groups.append(Group(command, environment={}, folder=tmp_path, log=log, runtime=real(), on_exit=ended.set))
        return groups[-1], ended

    yield started
    for group in groups:
        assert group.kill(real().clock() + LIMIT)


@pytest.mark.parametrize(
    ("code", "expected"), [("import sys; sys.exit(75)", 75), ("import os; os.kill(os.getpid(), 9)", -9)]
)
def test_the_end_is_told_once(
    start: Callable[..., tuple[Group, threading.Event]], tmp_path: Path, code: str, expected: int
) -> None:
    """F11: with the exit code, negative for a signal, and the log appended to."""
    (tmp_path / "log.txt").write_text("before\n")
    group, ended = start(f"import sys; print('out', flush=True); print('err', file=sys.stderr); {code}")
    assert ended.wait(LIMIT)
    assert group.exit_code == expected
    group.interrupt()  # there is nothing to interrupt
    assert group.kill(real().clock() + LIMIT)
    assert group.kill(real().clock() + LIMIT), "twice is as good as once"
    assert group.exit_code == expected
    assert (tmp_path / "log.txt").read_text() == "before\nout\nerr\n"


def test_interrupt_reaches_the_command_alone(
    start: Callable[..., tuple[Group, threading.Event]], tmp_path: Path
) -> None:
    """F13: its trial's process is its own to stop."""
    child = f"import signal, time; signal.signal(signal.SIGINT, lambda *_: open({str(tmp_path / 'hit')!r}, 'w')); "
    child += f"open({str(tmp_path / 'ready')!r}, 'w'); time.sleep(60)"
    group, ended = start(
        "import signal, subprocess, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in the background of a shell
        "try:\n    subprocess.run([sys.executable, '-c', sys.argv[1]])\nexcept KeyboardInterrupt:\n    sys.exit(130)",
        child,
    )
    _until((tmp_path / "ready").exists)
    group.interrupt()
    assert ended.wait(LIMIT)
    assert group.exit_code == 130
    assert not (tmp_path / "hit").exists()


@linux
@pytest.mark.parametrize("stay", ["stay", "end"])
def test_s12_nothing_outlives_a_kill(
    start: Callable[..., tuple[Group, threading.Event]], tmp_path: Path, stay: str
) -> None:
    """S12, S25: whatever ignores signals or made a session of its own, also when the orchestrator ended by itself."""
    group, ended = start(FAMILY, stay, str(tmp_path))
    _until((tmp_path / "ready").exists)
    pids = {name: int((tmp_path / name).read_text()) for name in ("child", "grandchild", "session")}
    group.interrupt()
    if stay == "end":
        assert ended.wait(LIMIT)
        assert group.exit_code == 0
    else:
        assert not ended.wait(0.3), "it ignores SIGINT"
        assert group.exit_code is None
    assert all(_alive(pid) for pid in pids.values())
    assert group.kill(real().clock() + LIMIT)
    assert not [name for name, pid in pids.items() if _alive(pid)], "seen dead at the moment of the answer"
    assert ended.wait(LIMIT)
    assert group.exit_code == (0 if stay == "end" else -9)


@linux
def test_a_group_that_cannot_be_killed_is_said_to_live(
    start: Callable[..., tuple[Group, threading.Event]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """S37, F13: `kill` gives up at its time, and does not call dead what is not."""
    group, _ = start("import time; time.sleep(60)")
    with monkeypatch.context() as patch:
        patch.setattr("longhaul.fleet.descendants.os.killpg", lambda pid, signal: None)
        before = time.monotonic()
        assert not group.kill(real().clock() + 0.3)
        assert 0.2 < time.monotonic() - before < 5


@linux
def test_a_zombie_is_dead(start: Callable[..., tuple[Group, threading.Event]], tmp_path: Path) -> None:
    """F13: and the leader stays one until its group was seen dead, or its number could become another's."""
    group, ended = start("import os, sys; print(os.getpid(), flush=True); sys.exit(3)")
    assert ended.wait(LIMIT)
    pid = (tmp_path / "log.txt").read_text().strip()
    assert Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    assert group.kill(real().clock() + 1)
    assert group.exit_code == 3


@linux
def test_a_new_worker_ends_what_an_old_one_left(tmp_path: Path) -> None:
    """I5, S12: all that has this directory in its environment, also in a session of its own; nothing else."""
    processes = []
    for name in ("mine", "mine too", "other"):
        home = tmp_path / f"{name.split()[0]}.d"
        arguments = [sys.executable, "-c", SLEEPS, str(tmp_path / name)]
        environment = {**os.environ, HOME: str(home)}
        processes.append(subprocess.Popen(arguments, env=environment, start_new_session=name == "mine too"))
    try:
        _until(lambda: all((tmp_path / name).exists() for name in ("mine", "mine too", "other")))
        _until(lambda: kill_left_in(str(tmp_path / "mine.d")))
        assert [process.wait(LIMIT) for process in processes[:2]] == [-9, -9]
        assert processes[2].poll() is None
    finally:
        for process in processes:
            process.kill()
            process.wait(LIMIT)


# ---- command lines ---------------------------------------------------------------------------------------------------
FIRST = Place(job="job", attempt=Attempt(generation=1, number=3))
SECOND = Place(job="job", attempt=Attempt(generation=2, number=4))
SHOWS = "import json, sys; print(json.dumps(sys.argv[1:]))"


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    """A worker's commands; the program only shows its arguments."""
    (tmp_path / "queue").mkdir()
    (tmp_path / "queue" / "manifest.json").write_text('{"run": "run-1", "versions": {}, "sha256": {}}')
    return Commands(
        keys=QueueKeys("q"),
        location=Location(bucket="bucket", prefix="prefix/stack/"),
        identity=Identity(instance="i-1", instance_type="m7i.large", zone="us-west-2b"),
        directory=Directory(tmp_path),
        deadline=DeadlineFile.create(tmp_path / "deadline"),
        runtime=real(),
        command=(sys.executable, "-c", SHOWS),
    )


def _shown(commands: Commands, start: Callable[[Callable[[], None]], object], place: Place) -> list[str]:
    ended = threading.Event()
    process = start(ended.set)
    assert isinstance(process, Group)
    assert ended.wait(LIMIT)
    assert process.kill(real().clock() + LIMIT)
    shown: list[str] = json.loads((commands.directory.attempt(place) / "log.txt").read_text().splitlines()[-1])
    return shown


def test_run(commands: Commands, tmp_path: Path) -> None:
    """F11: checkpoints go to this attempt, earlier ones are resumed, trials write below the run."""
    shown = _shown(commands, lambda done: commands.run(SECOND, [FIRST], on_exit=done), SECOND)
    here = "results/job/g2/attempt-4"
    assert shown == [
        *("run", "--queue-directory", f"{tmp_path}/queue", "--job", "job"),
        *("--attempt", "g2/attempt-4", "--output", f"{tmp_path}/{here}"),
        *("--checkpoint", f"s3://bucket/prefix/stack/fleet/q/{here}/"),
        *("--resume", f"{tmp_path}/results/job/g1/attempt-3", "--deadline", f"{tmp_path}/deadline"),
        *("--trials", "s3://bucket/prefix/stack/runs/run-1/trials/"),
    ]


def test_a_run_begins_in_an_empty_folder(commands: Commands) -> None:
    """F20: another queue's attempt of the same name, in the same directory, would count as measured by this one."""
    folder = commands.directory.attempt(SECOND)
    for alien in (folder / "checkpoint" / "a.rep-0.g2-a4.json", folder / "trials.jsonl", folder / "log.txt"):
        alien.parent.mkdir(parents=True, exist_ok=True)
        alien.write_text("{}")
    _shown(commands, lambda done: commands.run(SECOND, [FIRST], on_exit=done), SECOND)
    assert [path.name for path in folder.iterdir()] == ["log.txt"]
    assert "{}" not in (folder / "log.txt").read_text()


def test_a_run_that_no_document_names_is_not_started(commands: Commands) -> None:
    """L4: an OSError, as of any command that cannot be started."""
    (commands.directory.queue / "manifest.json").write_text("{}")
    with pytest.raises(OSError, match="names no run"):
        commands.run(SECOND, [], on_exit=lambda: None)


def test_commands_know_their_host(commands: Commands) -> None:
    """B8: what only the worker has found out."""
    names = ("LONGHAUL_INSTANCE", "LONGHAUL_INSTANCE_TYPE", "LONGHAUL_ZONE", HOME)
    show = f"import os; print(*(os.environ[name] for name in {names}))"
    shows = dataclasses.replace(commands, command=(sys.executable, "-c", show))
    ended = threading.Event()
    process = shows.quiesce([FIRST], on_exit=ended.set)
    assert ended.wait(LIMIT)
    assert process.kill(real().clock() + LIMIT)
    said = (commands.directory.attempt(FIRST) / "log.txt").read_text()
    assert said == f"i-1 m7i.large us-west-2b {commands.directory.root}\n"


def test_quiesce(commands: Commands, tmp_path: Path) -> None:
    """F10: of all attempts at once; the word of an earlier quiescing does not stay."""
    folder = commands.directory.attempt(SECOND)
    folder.mkdir(parents=True)
    (folder / "unconfirmed.json").write_text('{"queries": ["old"], "prefixes": []}')
    shown = _shown(commands, lambda done: commands.quiesce([FIRST, SECOND], on_exit=done), SECOND)
    assert shown == [
        *("quiesce", "--queue-directory", f"{tmp_path}/queue", "--job", "job", "--word", f"{folder}/unconfirmed.json"),
        *(f"{tmp_path}/results/job/g1/attempt-3", str(folder)),
    ]
    assert commands.unconfirmed([FIRST, SECOND]) == Unconfirmed(queries=(), prefixes=())


def test_report(commands: Commands, tmp_path: Path) -> None:
    """F20: of this job alone, from the first generation that counts; what an earlier report left does not stay."""
    folder = commands.directory.attempt(SECOND)
    folder.mkdir(parents=True)
    (folder / "merged.json").write_text('{"records": [], "files": ["job-summary.json"], "failed": 0}')
    shown = _shown(commands, lambda done: commands.report(SECOND, [FIRST], on_exit=done), SECOND)
    assert shown == [
        *("report", "--queue-directory", f"{tmp_path}/queue", "--job", "job"),
        *("--attempt", "g2/attempt-4", "--output", str(folder)),
        *("--results", "s3://bucket/prefix/stack/fleet/q/results/job/", "--generations", "1..2"),
    ]
    with pytest.raises(OSError, match=r"merged\.json"):
        commands.merged(SECOND)


def test_what_a_report_said(commands: Commands) -> None:
    """I3: the records that were merged; a report that leaves something else leaves nothing."""
    path = commands.directory.attempt(SECOND) / "merged.json"
    path.parent.mkdir(parents=True)
    path.write_text('{"records": [{"key": "k", "etag": "e"}], "files": ["job-summary.json"], "failed": 2}')
    said = Merged(records=(Record(key="k", etag="e"),), files=("job-summary.json",), failed=2)
    assert commands.merged(SECOND) == said
    for wrong in ("", "{", "{}", '{"records": [], "files": [], "failed": 0}'):
        path.write_text(wrong)
        with pytest.raises(ValueError, match=r"merged\.json"):
            commands.merged(SECOND)


def test_a_quiescing_without_a_word_confirmed_nothing(commands: Commands) -> None:
    """S12, S45: every trial that was begun may still write."""
    for place, trial in ((FIRST, "a.rep-0"), (SECOND, "b.rep-1")):
        folder = commands.directory.attempt(place) / "checkpoint"
        folder.mkdir(parents=True)
        (folder / f"{trial}-start.json").touch()
    trials = "s3://bucket/prefix/stack/runs/run-1/trials/"
    everything = Unconfirmed(queries=(), prefixes=(f"{trials}a.rep-0/", f"{trials}b.rep-1/"))
    assert commands.unconfirmed([FIRST, SECOND]) == everything
    word = commands.directory.attempt(SECOND) / "unconfirmed.json"
    word.write_text("[")
    assert commands.unconfirmed([FIRST, SECOND]) == everything
    word.write_text('{"queries": ["q1"], "prefixes": ["s3://b/t/"]}')
    assert commands.unconfirmed([FIRST, SECOND]) == Unconfirmed(queries=("q1",), prefixes=("s3://b/t/",))
    (commands.directory.queue / "manifest.json").write_text("{")
    assert commands.unconfirmed([FIRST]).prefixes == ("s3://bucket/prefix/stack/runs/",), "wherever it may be"


def test_the_deadline_is_told(commands: Commands) -> None:
    """F19: to whatever runs."""
    commands.tell_deadline(77.5)
    assert DeadlineFile.open(commands.directory.deadline).read() == 77.5
    assert os.fspath(commands.directory.deadline).endswith("deadline")
