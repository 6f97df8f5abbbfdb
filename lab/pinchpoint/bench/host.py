"""Carries single actions out on this machine. Every removal is idempotent and takes only what is the bench's."""

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import singledispatch
from pathlib import Path

from pinchpoint.bench import hugepages, numa
from pinchpoint.bench import resource as r
from pinchpoint.bench.netlink import Links
from pinchpoint.model.errors import BenchError, DutError, RequirementError
from pinchpoint.model.rules import expand_template

_READY = b"ready"  # the first line of a relay's account
KILL_TIMEOUT_S = 5.0  # a PMD's hugepages take a moment to be freed
EXEC_TIMEOUT_S = 1.0  # for one program to take the place of another in a process
MOST_ROUNDS = 10  # of ending marked processes: one may have started another before it ended


class CommandFailed(BenchError):
    """A command of the plan failed; `output` is its stderr, or its stdout if that is empty."""

    def __init__(self, argv: Sequence[str], output: str) -> None:
        self.argv = tuple(argv)
        self.output = output.strip()
        command = r.shell_line(self.argv, None, None)
        super().__init__(f"{argv[0]} failed: {self.output or 'no output'}\n  command: {command}")


def run_command(
    argv: Sequence[str],
    netns: str | None = None,
    environment: Sequence[tuple[str, str]] = (),
    cpus: Sequence[int] | None = None,
    timeout_s: float = r.COMMAND_TIMEOUT_S,
) -> str:
    """Run a command without a shell; returns its stdout. Raises CommandFailed or RequirementError."""
    prefix = ["ip", "netns", "exec", netns] if netns else []
    if cpus is not None:
        prefix += ["taskset", "-c", ",".join(map(str, cpus))]
    process: subprocess.Popen[str] | None = None
    try:
        with _signals_later():
            process = subprocess.Popen(
                [*prefix, *argv],
                env={**os.environ, **dict(environment)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                # Ctrl-C is for the lab: a half-run command would leave the bench undefined.
                start_new_session=True,
            )
        stdout, stderr = process.communicate(timeout=timeout_s)
    except FileNotFoundError as error:
        raise RequirementError(f"{error.filename}: not installed", "pinchpoint doctor") from error
    except subprocess.TimeoutExpired as error:
        raise CommandFailed(argv, f"it did not end within {timeout_s:g} s") from error
    finally:
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
    if process.returncode != 0:
        raise CommandFailed(argv, stderr or stdout)
    return stdout


@contextmanager
def _signals_later() -> Iterator[None]:
    """Inside, SIGINT, SIGTERM and SIGHUP are noted, and raised anew at the end.

    What strikes while a command is being started would leave it running, unknown to whoever
    undoes its work. They are not blocked: the command would inherit that.
    """
    if threading.current_thread() is not threading.main_thread():  # no handler runs in another one
        yield
        return
    arrived: list[int] = []
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        for number in before:
            signal.signal(number, lambda signalled, _: arrived.append(signalled))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for signalled in arrived:
            signal.raise_signal(signalled)


HIGHEST_PRIORITY = -20  # nice(2)


@contextmanager
def kept_off(cpus: Collection[int]) -> Iterator[None]:
    """Inside, this process and those it starts do not run on `cpus`, if there are others.

    Where a PMD polls, a reader of its counters would take the core from it.
    """
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before - set(cpus) or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def preferred() -> Iterator[None]:
    """Inside, this process and those it starts come before what else runs here, where this process may ask for that.

    The bench's daemons and the engine poll cores that other programs of the host may share. All of the bench has
    one priority, so that nothing of it comes before the rest.
    """
    before = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        os.setpriority(os.PRIO_PROCESS, 0, HIGHEST_PRIORITY)
    except PermissionError:
        yield
        return
    share_priority(os.getpid())
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)
        share_priority(os.getpid())


def share_priority(pid: int) -> None:
    """Give the session of `pid` this process's priority: a kernel with autogroups weighs sessions first (sched(7))."""
    with suppress(OSError):  # it has ended, or the kernel has none
        Path(f"/proc/{pid}/autogroup").write_text(str(os.getpriority(os.PRIO_PROCESS, 0)))


@singledispatch
def create(resource: r.Resource) -> None:
    """Create `resource`. Raises BenchError, RequirementError or OSError."""
    raise NotImplementedError(type(resource).__name__)


@singledispatch
def remove(resource: r.Resource) -> None:
    """Remove `resource`; if it is already gone, do nothing. Raises BenchError, RequirementError or OSError."""
    raise NotImplementedError(type(resource).__name__)


@create.register
def _(resource: r.RunDirectory) -> None:
    Path(resource.path).mkdir(mode=0o700, parents=True)


@remove.register
def _(resource: r.RunDirectory) -> None:
    shutil.rmtree(resource.path, ignore_errors=True)
    if Path(resource.path).exists():
        shutil.rmtree(resource.path)  # raises what kept it


@create.register
def _(resource: r.MarkedProcesses) -> None:
    """Nothing to do: processes are marked as they start."""


@remove.register
def _(resource: r.MarkedProcesses) -> None:
    for _ in range(MOST_ROUNDS):
        pids = list(marked_pids(resource.bench_id))
        if not pids:
            return
        end_processes(pids, grace_s=2.0)
    raise BenchError(
        f"processes of bench {resource.bench_id} keep starting new ones after {MOST_ROUNDS} rounds of kills",
        "pinchpoint clean",
    )


@create.register
def _(resource: r.Hugepages) -> None:
    _set_hugepages(resource.after)
    if _read_hugepages() < resource.after:
        Path("/proc/sys/vm/compact_memory").write_text("1")
        _set_hugepages(resource.after)
    got = _read_hugepages()
    if got < resource.after:
        raise RequirementError(
            f"the kernel reserved {got - resource.before} of {resource.after - resource.before} hugepages of 2 MiB",
            f"free memory, or reserve them at boot: hugepages={resource.after} on the kernel command line",
        )
    hugepages.wait_for(resource.needed or resource.after - resource.before, "the bench")


@remove.register
def _(resource: r.Hugepages) -> None:
    present = _read_hugepages()
    wanted = max(resource.before, present - (resource.after - resource.before))
    if wanted < present:
        _set_hugepages(wanted)


def _read_hugepages() -> int:
    return int(hugepages.NR_HUGEPAGES.read_text())


def _set_hugepages(pages: int) -> None:
    hugepages.NR_HUGEPAGES.write_text(str(pages))


@create.register
def _(resource: r.Namespace) -> None:
    _add_namespace(resource.name)


@remove.register
def _(resource: r.Namespace) -> None:
    _delete_namespace(resource.name)


def named_after(bench_id: str, state_directory: Path) -> list[r.AnyResource]:
    """What bears the bench's name on this machine, in order of dependency: what any version of this program makes."""
    names = sorted(path.name for path in Path("/run/netns").glob(f"pp-{bench_id}-*"))
    folder = r.RunDirectory(str(state_directory / bench_id))
    return [folder, *map(r.Namespace, names), r.MarkedProcesses(bench_id)]


def _add_namespace(name: str) -> None:
    run_command(["ip", "netns", "add", name])
    run_command(["ip", "-n", name, "link", "set", "lo", "up"])
    # -e: a kernel without IPv6 has nothing to turn off.
    run_command(
        ["sysctl", "-e", "-qw", "net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1"], name
    )


def _delete_namespace(name: str) -> None:
    if Path("/run/netns", name).exists():
        run_command(["ip", "netns", "del", name])


@create.register
def _(resource: r.Veth) -> None:
    run_command(resource.describe().split())
    for netns, name in ((resource.netns, resource.name), (resource.peer_netns, resource.peer)):
        run_command(["ip", "-n", netns, "link", "set", "dev", name, "up"])


@remove.register
def _(resource: r.Veth) -> None:
    """The pair goes with either of its namespaces."""


@create.register
def _(resource: r.Host) -> None:
    _add_namespace(resource.netns)
    create(r.Veth(resource.peer, resource.peer_netns, resource.INTERFACE, resource.netns, resource.mtu))
    run_command(["ip", "-n", resource.netns, "address", "add", resource.address, "dev", resource.INTERFACE])
    if not resource.offloads:
        run_command(["ethtool", "-K", resource.INTERFACE, "tx", "off", "tso", "off"], resource.netns)


@remove.register
def _(resource: r.Host) -> None:
    _delete_namespace(resource.netns)


@create.register
def _(resource: r.TextFile) -> None:
    with open(resource.path, "w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in resource.lines)
        for template, count, first in resource.series:
            file.writelines(f"{line}\n" for line in expand_template(template, count, first))


@remove.register
def _(resource: r.TextFile) -> None:
    """The file goes with the run directory."""


@create.register
def _(resource: r.Command) -> None:
    run_command(resource.argv, resource.netns, resource.environment, timeout_s=resource.timeout_s)


@remove.register
def _(resource: r.Command) -> None:
    """Its effect ends with the resource it changed."""


@create.register
def _(resource: r.TapLinks) -> None:
    """The switch makes them, one for each internal port."""


@remove.register
def _(resource: r.TapLinks) -> None:
    if Path("/run/netns", resource.netns).exists():
        with Links(resource.netns) as links:
            links.remove_kind("tun")


@create.register
def _(resource: r.Daemon) -> None:
    environment = (*resource.environment, (r.ENVIRONMENT_MARK, resource.bench_id))
    try:
        with numa.memory_on(resource.memory_nodes):
            run_command(resource.argv, resource.netns, environment, resource.cpus)
    except CommandFailed as error:
        raise BenchError(f"{resource.name} did not start: {error.output}\n{_tail(resource.log)}") from error
    share_priority(daemon_pid(resource))


@remove.register
def _(resource: r.Daemon) -> None:
    _end_named(resource)


@create.register
def _(resource: r.Relay) -> None:
    pid = _start_relay(resource)
    Path(resource.pidfile).write_text(str(pid))
    share_priority(pid)
    ports = len(resource.directions)
    deadline = time.monotonic() + ports * resource.LINK_TIMEOUT_S
    while resource.awaited and _READY + b"\n" not in Path(resource.account).read_bytes():
        if os.waitpid(pid, os.WNOHANG)[0]:
            raise BenchError(f"{resource.name} did not start\n{_tail(resource.log)}")
        if time.monotonic() > deadline:
            raise BenchError(
                f"{resource.name}: not every link came up; the switch may lack a port\n{_tail(resource.log)}"
            )
        time.sleep(0.01)


@remove.register
def _(resource: r.Relay) -> None:
    pid = _end_named(resource)
    if pid is not None:
        with suppress(ChildProcessError):  # started by another process, which `clean` is not
            os.waitpid(pid, os.WNOHANG)


def _start_relay(resource: r.Relay) -> int:
    """Start it detached, without any of this process's terminal; returns its process id."""
    environment = {**os.environ, **dict(resource.environment), r.ENVIRONMENT_MARK: resource.bench_id}
    new = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    files = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, resource.account, new, 0o600),
        (os.POSIX_SPAWN_OPEN, 2, resource.log, new, 0o600),
    ]
    argv = ["taskset", "-c", str(resource.cpu), *resource.argv]
    try:
        return os.posix_spawnp(argv[0], argv, environment, file_actions=files, setsid=True, setsigmask=())
    except FileNotFoundError as error:
        raise RequirementError(f"{argv[0]}: not installed", "pinchpoint doctor") from error


def ask_relay(resource: r.Relay, timeout_s: float = 2.0) -> str:
    """The account that a running relay prints now, a line of JSON. Raises DutError if it prints none."""
    account = Path(resource.account)
    pid = daemon_pid(resource)
    with account.open("rb") as answers:
        answers.seek(0, os.SEEK_END)
        try:
            os.kill(pid, signal.SIGUSR1)
        except ProcessLookupError as error:  # it ended between being found and being asked
            raise DutError(f"{resource.name} is gone; the end of its log:\n{_tail(resource.log)}") from error
        told = b""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            told += answers.read()
            line = told.rpartition(b"\n")[0].rpartition(b"\n")[2]  # what follows the last end is not yet complete
            if line and line != _READY:  # it may become ready only now
                return line.decode(errors="replace")
            time.sleep(0.002)
    daemon_pid(resource)  # it may have been about to end when it was asked
    raise DutError(f"{resource.name} printed no account within {timeout_s:g} s\n{_tail(resource.log)}")


def daemon_pid(resource: r.Daemon | r.Relay) -> int:
    """The process of a daemon that runs. Raises DutError if it does not."""
    pid = _named_pid(resource)
    if pid is None:
        raise DutError(f"{resource.name} is gone; the end of its log:\n{_tail(resource.log)}")
    return pid


def _named_pid(resource: r.Daemon | r.Relay) -> int | None:
    """The process that the pid file names, if it carries the bench's mark."""
    try:
        pid = int(Path(resource.pidfile).read_text())
    except (OSError, ValueError):
        return None  # never started, or gone; a nameless survivor falls to MarkedProcesses
    return pid if _is_marked(pid, resource.bench_id) else None


def _is_marked(pid: int, bench_id: str) -> bool:
    """Whether a process carries the bench's mark. One that is replaced by another program has no environment yet."""
    deadline = time.monotonic() + EXEC_TIMEOUT_S
    while not (environment := _environment(pid)) and _alive([pid]) and time.monotonic() < deadline:
        time.sleep(0.002)
    return _mark(bench_id) in environment


def _end_named(resource: r.Daemon | r.Relay) -> int | None:
    pid = _named_pid(resource)
    if pid is not None:
        end_processes([pid], resource.GRACE_S)
    return pid


def marked_pids(bench_id: str) -> Iterator[int]:
    """The processes that carry the bench's mark in their environment, this one excepted."""
    mark = _mark(bench_id)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid() and mark in _environment(int(entry.name)):
            yield int(entry.name)


def _mark(bench_id: str) -> bytes:
    return f"{r.ENVIRONMENT_MARK}={bench_id}".encode()


def _environment(pid: int) -> list[bytes]:
    """The words of a process's environment; none of one that has gone or is not ours to read."""
    try:
        return [word for word in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") if word]
    except OSError:
        return []


def end_processes(pids: Sequence[int], grace_s: float) -> None:
    """SIGTERM, then SIGKILL after `grace_s`; returns when all are gone. Raises BenchError naming those that stay.

    SIGCONT follows SIGTERM and is repeated: a process that was frozen takes no signal but SIGKILL, and whoever
    froze it may do so again until it has ended itself.
    """
    _signal_all(pids, signal.SIGTERM)
    deadline = time.monotonic() + grace_s
    while (alive := _alive(pids)) and time.monotonic() < deadline:
        _signal_all(alive, signal.SIGCONT)
        time.sleep(0.01)
    _signal_all(_alive(pids), signal.SIGKILL)
    deadline = time.monotonic() + KILL_TIMEOUT_S
    while (alive := _alive(pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    if alive:
        names = ", ".join(map(str, alive))
        raise BenchError(f"still running {KILL_TIMEOUT_S:g} s after SIGKILL: process {names}", "pinchpoint clean")


def freeze(pid: int) -> None:
    """Take a process off its cores, all threads of it, until `thaw`. One that has gone is no error."""
    _signal_all([pid], signal.SIGSTOP)


def thaw(pid: int) -> None:
    """Let a frozen process run again; of one that runs nothing changes. One that has gone is no error."""
    _signal_all([pid], signal.SIGCONT)


def _signal_all(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _alive(pids: Sequence[int]) -> list[int]:
    return [pid for pid in pids if any(_state(thread) not in (None, "Z", "X") for thread in _threads(pid))]


def _threads(pid: int) -> list[Path]:
    """Of a process, its first one included: that one may be a zombie while others still hold the memory."""
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return []


def _state(thread: Path) -> str | None:
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def _tail(log: str, lines: int = 12) -> str:
    try:
        return "\n".join(f"  | {line}" for line in Path(log).read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return f"  (no log at {log})"
