"""A host reached by OpenSSH's client, with the user's own configuration, keys and jump hosts.

One connection carries everything: the line to an agent that is sent when it begins (`ssh_boot`, `agent`), and a
channel for each engine. Nothing is installed there but the engine's file, and no port is opened.
Options: ssh(1), ssh_config(5).
"""

import errno
import hashlib
import json
import os
import platform
import re
import secrets
import shlex
import socket
import subprocess
import tempfile
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib import resources
from pathlib import Path
from typing import IO, Any, Final

from pinchpoint.host.asked import ANSWER_TIMEOUT_S, AgentsJob, AskedHost, Seconds
from pinchpoint.host.guest_line import LONGEST, Line, LineError, to_text
from pinchpoint.host.signals import signals_later
from pinchpoint.model.errors import HostLostError, InputError, PinchpointError, RequirementError

PROGRAM: Final = "ssh"
CACHE: Final = "/var/cache/pinchpoint"  # on the host: the engine's file, in a folder named after its hash
_BEGIN_TIMEOUT_S = 60.0  # to connect, through jump hosts, and start the agent
_PUT_TIMEOUT_S = 600.0  # for the engine's file over a slow link
_CLOSE_TIMEOUT_S = 5.0
_REFUSED_TIMEOUT_S = 2.0
_PINGS = 5  # in the time of a lease
_ALIVE_MISSED = 3  # ServerAliveCountMax: with three messages in half of a lease, the lab knows of a cut before the host
_MOST_SAID = 6  # lines of ssh's own words
_SSH_FAILED = 255
_HOST_MODULES: Final = (
    *("__init__", "interface", "signals", "memory_policy", "locked", "local", "processes", "hugepages", "lease"),
    *("interfaces", "many", "netlink", "guest_line", "agent"),
)
_SENT: Final = (
    *("pinchpoint.__init__", "pinchpoint.model.__init__", "pinchpoint.model.errors"),
    *(f"pinchpoint.host.{name}" for name in _HOST_MODULES),
)
_OPTIONS: Final = (
    *("BatchMode=yes", "ControlPersist=no", "ClearAllForwardings=yes", "ForwardAgent=no", "ForwardX11=no"),
    *("PermitLocalCommand=no", "RemoteCommand=none", "RequestTTY=no", "EscapeChar=none"),
)
# Of each line, what ends with a status of its own is a requirement; $@ is the command.
_AS_USER = "command -v python3 >/dev/null 2>&1 || exit 97; "
_AS_ROOT = 'if [ "$(id -u)" = 0 ]; then exec "$@"; fi; '
_BY_SUDO = 'sudo -n true </dev/null || exit 98; exec sudo -n "$@"'
_ITSELF = 'exec "$@"'
_ENGINE = 'echo -20 2>/dev/null >/proc/self/autogroup; exec nice -n -20 env "$@"'
# The connection stays open as long as an engine uses it; the last line says that the agent, of which it was, has ended.
_AGENT = 'python3 -I -S -c "$0"; ended=$?; echo ended; exit $ended'
_LACKING: Final[Mapping[int, tuple[str, str]]] = {  # by the status of the scripts above
    96: ("its python3 is older than 3.11", "ssh {host} python3 --version; install a newer one there"),
    97: ("it has no python3", "ssh -t {host} sudo apt-get install python3"),
    98: (
        "the user is not root, and sudo wants a password or a terminal, or is not installed",
        'ssh -t {host} \'printf "%s ALL=(root) NOPASSWD: ALL\\nDefaults:%s !requiretty\\n" "$USER" "$USER" | '
        "sudo tee /etc/sudoers.d/pinchpoint'; or log in as root",
    ),
}
_REFUSALS: Final = (  # by ssh's own words, which only choose the hint
    ("(?i)host key .*has changed|IDENTIFICATION HAS CHANGED",
     "its host key has changed: it was reinstalled, or another machine answers",
     "compare the fingerprint with the host's own, by another way than the network; if it is right, remove the "
     "old key by ssh-keygen, as ssh says above, then ssh {host}"),
    ("(?i)host key", "its host key is not one that ssh knows",
     "ssh {host}; compare the key that it shows with the host's own, say yes"),
    ("Permission denied", "it accepts no key without a question",
     "ssh-copy-id {host}; ssh-add, if the key has a passphrase"),
)  # fmt: skip


class Ssh(AskedHost):
    """A host by the name that ssh knows it by. It is connected by `open`, and anew by another one once it is lost."""

    def __init__(self, address: str, sudo: bool = True, lease_s: float = 60.0, program: str = PROGRAM) -> None:
        """`address` is a destination of ssh(1); `sudo`: become root by it where the user is not."""
        self.name = address
        self._sudo, self._lease_s, self._program = sudo, lease_s, program
        self._line: Line | None = None
        self._ssh: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._sockets = ""  # the folder of the connection's socket, where there is one
        self._connected = ExitStack()  # what ends with the connection
        self._engines: dict[str, str] = {}
        self._over = threading.Event()
        self._connections = 0
        self._token = secrets.token_hex(8)
        self._lock: tuple[str, str] | None = None
        self._machine = platform.machine()  # of the host, once it has said so
        self.clock_ahead_s = 0.0  # its wall clock, of this machine's; known to half of a round trip

    @property
    def is_started(self) -> bool:
        """Whether it answers, as far as is known."""
        return self._line is not None and self._line.is_usable and self._ssh is not None and self._ssh.poll() is None

    @property
    def connection(self) -> int:
        """The number of its connection; 0 before the first."""
        return self._connections

    def agree(self, sudo: bool, lease_s: float) -> None:
        """What another scenario says of the host, which has one connection: the shortest lease holds.

        Raises InputError if it says otherwise whether sudo may be used.
        """
        if sudo != self._sudo:
            told = f"sudo is {str(self._sudo).lower()} in one scenario and {str(sudo).lower()} in another"
            raise InputError(f"{self.name}: {told}", "give a host the same value in each")
        if lease_s < self._lease_s:
            self._lease_s = lease_s
            if self.is_started:
                with suppress(HostLostError):  # `open` says it again
                    self._identify()

    def open(self) -> None:
        """Connect, unless it is connected. Raises RequirementError with what mends it, HostLostError."""
        if self.is_started:
            return
        self.close()
        try:
            self._begin()
            self._check(self._identify())
            if self._lock:
                self._hold_again(*self._lock)
        except BaseException:
            self.close()
            raise
        self._over = threading.Event()
        threading.Thread(target=self._ping, args=(self._over,), name=f"lease of {self.name}", daemon=True).start()

    def hold_machine(self, path: str, holder: str) -> None:
        """Hold the lock of the machine until `close`, also over lost connections. Raises BlockingIOError."""
        if self._lock is None:
            self.hold(path, holder, self._token)
            self._lock = path, holder

    def _hold_again(self, path: str, holder: str) -> None:
        try:
            self.hold(path, holder, self._token)
        except BlockingIOError as error:
            told = f"another run has become active there meanwhile: {error.strerror}"
            raise self._needs(told, "wait until it ends, then --resume RUN") from None
        except OSError as error:
            raise self._cannot_write(path, error) from None

    def lock_token(self, path: str) -> str:
        """The token of who holds the lock of the machine there; empty where that is not known."""
        with suppress(OSError, ValueError):
            holder = json.loads(self.read(path))
            return str(holder.get("token", "")) if isinstance(holder, dict) else ""
        return ""

    def holds_by(self, token: str) -> bool:
        """Whether it holds the lock of its machine, by this token."""
        return self._lock is not None and token == self._token

    def is_lost(self) -> bool:
        """Whether it does not answer now."""
        try:
            self._ask("ping", {})
        except PinchpointError:
            return True
        return False

    def begin(self, work: str, packed: str) -> AgentsJob:
        """Let the agent begin work, by its name and what it is given (`many.pack`), beside its answers."""
        number = self._ask("begin", {"work": work, "packed": packed}, _PUT_TIMEOUT_S)
        return AgentsJob(self, self._checked(int, number))

    def close(self) -> None:
        """End the connection. The agent undoes what it still holds."""
        self._over.set()
        self._line = self._ssh = self._said = None
        self._sockets = ""
        self._connected.close()
        self._engines.clear()  # what comes back may have been installed anew

    def engine(self, path: str) -> str:
        """Where the engine of this machine's `path` is found on the host, once its hash has been compared.

        Raises RequirementError if it cannot be put there, or there is none for the host's architecture.
        """
        if path not in self._engines:
            data = Path(self._built_for_it(path)).read_bytes()
            digest = hashlib.sha256(data).hexdigest()
            there = f"{CACHE}/{digest[:16]}/{Path(path).name}"
            if self._ask("sha256", {"path": there}) != digest:
                arguments = {"path": there, "data": to_text(zlib.compress(data, 6)), "mode": 0o755}
                try:
                    self._ask("put", arguments, _PUT_TIMEOUT_S)
                except OSError as error:
                    raise self._cannot_write(there, error) from None
                if self._ask("sha256", {"path": there}) != digest:
                    raise self._needs(f"{there} is not what was sent", f"ssh {self.name} df {CACHE}")
            self._engines[path] = there
        return self._engines[path]

    def reached(self, argv: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        """The command of this machine that runs a command there, its standard streams included."""
        words = [f"{name}={value}" for name, value in environment.items()]
        return self._command(["-o", "ControlMaster=no"], ["sh", "-c", _ENGINE, "engine", *words, *argv])

    def _command(self, options: Sequence[str], argv: Sequence[str]) -> list[str]:
        assert self._sockets, "open"
        alive_s = max(1, int(self._lease_s / 2 / _ALIVE_MISSED))
        own = (f"ControlPath={self._sockets}/c", f"ConnectTimeout={int(_BEGIN_TIMEOUT_S / 4)}")
        alive = (f"ServerAliveInterval={alive_s}", f"ServerAliveCountMax={_ALIVE_MISSED}")
        settings = [word for option in (*_OPTIONS, *own, *alive) for word in ("-o", option)]
        script = _AS_USER + _AS_ROOT + (_BY_SUDO if self._sudo else _ITSELF)
        return [self._program, *options, *settings, "--", self.name, shlex.join(["sh", "-c", script, "sh", *argv])]

    def _begin(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="pinchpoint-ssh-", ignore_cleanup_errors=True)
        self._sockets = self._connected.enter_context(folder)
        self._said = self._connected.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 (until `close`)
        boot = _text("pinchpoint.host.ssh_boot")
        command = self._command(["-o", "ControlMaster=yes"], ["sh", "-c", _AGENT, boot])
        ours, theirs = socket.socketpair()
        try:
            with theirs, signals_later():
                self._ssh = subprocess.Popen(
                    command, stdin=theirs.fileno(), stdout=theirs.fileno(), stderr=self._said, process_group=0
                )
                self._connected.callback(_end, self._ssh)
                self._line = Line(ours, LONGEST)
                self._connected.callback(self._line.close)
        except FileNotFoundError:
            ours.close()
            raise RequirementError(f"{self._program}: not installed", "apt-get install openssh-client") from None
        self._connections += 1
        sent = json.dumps({"modules": {name: _text(name) for name in _SENT}, "main": "pinchpoint.host.agent"}).encode()
        ours.settimeout(_BEGIN_TIMEOUT_S)
        try:
            ours.sendall(b"%d\n" % len(sent) + sent)
            if self._line.await_ready(_BEGIN_TIMEOUT_S):
                return
            hint = f"ssh {self.name} true, which must end at once; a start-up file of the login may wait for something"
            raise self._needs(f"no answer within {_BEGIN_TIMEOUT_S:g} s{self._printed()}", hint)
        except (LineError, OSError) as error:
            raise self._refused(error) from None

    def _refused(self, error: LineError | OSError) -> RequirementError:
        """Why the agent did not start, by the status with which ssh ended."""
        assert self._ssh is not None
        with suppress(subprocess.TimeoutExpired):
            self._ssh.wait(_REFUSED_TIMEOUT_S)
        said, code = self._printed(), self._ssh.poll()
        if code is None:
            hint = f"ssh {self.name} true, which must print nothing"
            return self._needs(f"the agent did not start: {error}{said}", hint)
        if code in _LACKING:
            what, hint = _LACKING[code]
            return self._needs(f"{what}{said}", hint.format(host=self.name))
        for words, what, hint in _REFUSALS if code == _SSH_FAILED else ():
            if re.search(words, said):
                return self._needs(f"{what}{said}", hint.format(host=self.name))
        return self._needs(f"ssh ended with status {code}{said}", f"ssh {self.name} true")

    def _identify(self) -> Mapping[str, object]:
        """Say for how long the lab may be silent; learn what the host is."""
        asked_s = time.time()
        identity: dict[str, object] = self._checked(dict[str, Any], self._ask("identity", {"lease_s": self._lease_s}))
        if "clock_s" in identity:
            self.clock_ahead_s = self._checked(Seconds, identity["clock_s"]) - (asked_s + time.time()) / 2
        self._machine = str(identity.get("machine", self._machine))
        return identity

    def _check(self, identity: Mapping[str, object]) -> None:
        """Whether a bench can be built there."""
        if identity.get("uid") != 0:
            hint = "log in as root, or leave sudo at its default, true"
            raise self._needs("the user is not root; namespaces, hugepages and CPU pinning need it", hint)

    def _built_for_it(self, path: str) -> str:
        """The engine's file for the host's architecture: `path`, or beside it one that ends with the architecture.

        Raises RequirementError where there is none.
        """
        here = platform.machine()
        if self._machine == here:
            return path
        other = f"{path}-{self._machine}"
        if not Path(other).is_file():
            hint = f"use a host of {here}; or build the engine on {self._machine} and put it to {other}"
            raise self._needs(f"it is {self._machine}, and this lab's engine is for {here}", hint)
        return other

    def _ask(self, call: str, arguments: Mapping[str, Any], timeout_s: float = ANSWER_TIMEOUT_S) -> Any:
        line = self._line
        if line is None:
            raise HostLostError(f"{call}: {self.name} is not connected")
        try:
            with signals_later():  # a request that is cut short would end the line, and with it the bench
                return line.ask(call, arguments, timeout_s)
        except LineError as error:
            raise self._lost(error) from None

    def _lost(self, error: LineError) -> HostLostError:
        return HostLostError(f"{self.name} does not answer: {error}{self._printed()}", f"ssh {self.name} true")

    def _cannot_write(self, path: str, error: OSError) -> RequirementError:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        looked_at = ["df", "-h", str(Path(path).parents[1])] if is_full else ["ls", "-ld", str(Path(path).parents[1])]
        command = f"ssh {shlex.join([self.name, *looked_at])}"
        hint = f"free some space there, see {command}" if is_full else command
        return self._needs(f"{path}: cannot write: {error.strerror}", hint)

    def _needs(self, what: str, hint: str) -> RequirementError:
        return RequirementError(f"{self.name}: {what}", hint)

    def _printed(self) -> str:
        """What ssh said last, to be appended to an error."""
        if self._said is None:
            return ""
        size = os.fstat(self._said.fileno()).st_size
        tail = os.pread(self._said.fileno(), 4096, max(0, size - 4096)).decode(errors="replace")
        lines = ["".join(filter(str.isprintable, line)) for line in tail.splitlines()]
        return "".join(f"\n  | {line}" for line in lines[-_MOST_SAID:] if line.strip())

    def _ping(self, over: threading.Event) -> None:
        """Renew the lease while nothing else is asked."""
        while not over.wait(self._lease_s / _PINGS):
            with suppress(PinchpointError, OSError):  # the next request says that it is lost
                self._ask("ping", {})


def _text(module: str) -> str:
    """A module's own text."""
    package, _, name = module.rpartition(".")
    return resources.files(package).joinpath(f"{name}.py").read_text(encoding="utf-8")


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Once its end of the line is closed, it ends."""
    try:
        process.wait(_CLOSE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
