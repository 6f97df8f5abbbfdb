"""Samples of forwarding threads: what perf prints is read strictly, and what perf cannot do is said."""

import re
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinchpoint.host.interface import CommandFailed
from pinchpoint.model.errors import BenchError
from pinchpoint.observe import perf
from pinchpoint.observe.perf import Functions, parse
from pinchpoint.observe.snapshot import Forwarding

SCRIPT = """\
   71\x20
\tffffffff8162cfdb ___slab_alloc ([kernel.kallsyms])
\tffffffff821ecc51 do_syscall_64 ([kernel.kallsyms])
\t           d43b8 __recvmmsg (/usr/lib/x86_64-linux-gnu/libc.so.6)

   71\x20
\tffffffffc0201f04 veth_xmit ([veth])

   72\x20
\t           13098 [unknown] (/usr/sbin/ovs-vswitchd)

   71\x20
\tffffffff8162cfdb ___slab_alloc ([kernel.kallsyms])
\tffffffff821ecc51 do_syscall_64 ([kernel.kallsyms])
\t           d43b8 __recvmmsg (/usr/lib/x86_64-linux-gnu/libc.so.6)

"""
ON_CPUS = """\
    0 [001]\x20
\tffffffff81 br_forward ([bridge])
\tffffffff82 __netif_receive_skb ([kernel.kallsyms])
\tffffffff83 net_rx_action ([kernel.kallsyms])
\tffffffff84 handle_softirqs ([kernel.kallsyms])
\t        85 main (/usr/bin/python3)

  903 [001]\x20
\t        85 main (/usr/bin/python3)

"""
NAMES = {71: "pmd-c01/id:7", 72: "main"}


def of_threads(text):
    return parse(text, lambda thread, _: NAMES.get(thread), softirqs=False)


def one_frame(words):
    return of_threads(f"71\n\tff {words}\n")


def test_samples_are_counted_by_stack_and_their_folded_lines_add_up():
    profile = of_threads(SCRIPT)
    assert profile.folded() == (
        "pmd-c01/id:7;__recvmmsg;do_syscall_64;___slab_alloc 2\nmain;[ovs-vswitchd] 1\npmd-c01/id:7;veth_xmit 1\n"
    )
    assert (profile.samples, profile.unnamed) == (4, 1)


def test_the_time_of_a_function_is_its_own_without_those_it_calls():
    rows = [
        (function.function, function.source, function.samples, function.share)
        for function in of_threads(SCRIPT).functions()
    ]
    assert rows == [
        ("___slab_alloc", "kernel", 2, 0.5),
        ("", "ovs-vswitchd", 1, 0.25),
        ("veth_xmit", "[veth]", 1, 0.25),
    ]


def test_of_a_cpu_only_receive_softirqs_count_from_there_inwards():
    sampled = parse(ON_CPUS, lambda _, cpu: f"softirq on CPU {cpu}", softirqs=True)
    assert sampled.folded() == "softirq on CPU 1;net_rx_action;__netif_receive_skb;br_forward 1\n"
    assert (sampled.samples, sampled.elsewhere) == (1, 1)


@pytest.mark.parametrize(
    ("words", "frame"),
    [
        ("f(int, (anonymous namespace)::T) (/opt/a (1)/b.so)", ("f(int, (anonymous namespace)::T)", "b.so")),
        ("gone (/usr/bin/x (deleted))", ("gone", "x (deleted)")),
        ("a;b (/x;y)", ("a:b", "x:y")),
        ("\x1b[31mred\x07 (/x)", ("?[31mred?", "x")),
        ("[unknown] ([unknown])", ("", "[unknown]")),
    ],
)
def test_names_are_kept_but_for_what_would_break_a_line(words, frame):
    ((_, frames),) = one_frame(words).counts
    assert frames == (frame,)


def test_a_name_without_end_is_cut():
    ((_, ((name, _),)),) = one_frame(f"{'x' * 100_000} (/y)").counts
    assert len(name) == perf.MOST_NAME + 3


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("perf: a warning\n", "line 1: expected a thread id"),
        ("71 \n\tzz f (/x)\n", "line 2: expected an address"),
        ("71 \n\tff f\n", "line 2: expected an address"),
        ("71 \n\tff f /x)\n", "line 2: expected an address"),
        ("71 \n\tff (/x)\n", "line 2"),
        ("71 \n\tff f (/x)\n71 \n", "line 3: expected an address"),
        ("99 \n\tff f (/x)\n", "a thread that was not asked for"),
        ("99999999999999999999 \n", "line 1: expected a thread id"),
    ],
)
def test_a_line_that_is_not_understood_is_refused_by_its_number(text, words):
    with pytest.raises(BenchError, match=re.escape(words)):
        of_threads(text)


def test_output_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(perf, "MOST_TEXT", 100)
    with pytest.raises(BenchError, match="more than 100"):
        of_threads(SCRIPT)
    monkeypatch.setattr(perf, "MOST_TEXT", 10_000)
    monkeypatch.setattr(perf, "MOST_STACKS", 2)
    with pytest.raises(BenchError, match="more than 2 different stacks"):
        of_threads(SCRIPT)


def test_of_a_deep_stack_the_innermost_functions_are_kept():
    frames = "".join(f"\tff f{place} (/x)\n" for place in range(1000))
    ((_, kept),) = of_threads(f"71\n{frames}").counts
    assert (len(kept), kept[-1]) == (perf.MOST_FRAMES, ("f0", "x"))


@given(st.text() | st.lists(st.sampled_from(["71 ", "\tff f (/x)", "", "\t", ")", "71 [1]:"])).map("\n".join))
def test_any_text_is_read_or_refused(text):
    try:
        profile = of_threads(text)
    except BenchError:
        return
    lines = profile.folded().splitlines()
    assert sum(int(line.rpartition(" ")[2]) for line in lines) == profile.samples


class FakeHost:
    """A machine with a perf that prints what the test wants."""

    def __init__(self, script=SCRIPT, refusals=0, installed=True, size=1000, stubborn=False):
        self.script, self.refusals, self.installed, self.bytes, self.stubborn = (
            script, refusals, installed, size, stubborn,
        )  # fmt: skip
        self.commands, self.started, self.written, self.signals = [], [], [], []

    def which(self, program):
        return f"/usr/bin/{program}" if self.installed else None

    def run(self, argv, netns=None, environment=(), cpus=None, timeout_s=0.0):
        self.commands.append(argv)
        if argv[1] == "record" and self.refusals:
            self.refusals -= 1
            raise CommandFailed(argv, "Error:\nAccess to performance monitoring is limited.")
        return {"record": "", "evlist": "cpu-clock\ndummy:HG\n", "script": self.script}[argv[1]]

    def spawn(self, argv, environment, output, errors):
        self.started.append((argv, dict(environment)))
        return 4711

    def ended(self, pid):
        return not self.stubborn

    def write(self, path, text):
        self.written.append(path)

    def size(self, path):
        return self.bytes

    def signal(self, pids, number):
        self.signals.append(number)
        return list(pids)

    def names(self, folder):
        return []

    def read(self, path):
        raise OSError


MARK = (("PINCHPOINT_BENCH", "abc"),)


def functions_of(host, *forwarding):
    return Functions(host, "/run/b", forwarding or (Forwarding(NAMES),), MARK)


def test_the_threads_that_the_device_names_are_sampled_for_a_time():
    host = FakeHost()
    profile = functions_of(host)
    assert profile.can_run() is None
    profile.start(2.0)
    profile.start(2.0)
    ((argv, environment),) = host.started
    assert argv[argv.index("-t") + 1] == "71,72"
    assert argv[argv.index("-e") + 1] == profile.event == "cpu-clock", "what perf says, not what was asked for"
    assert argv[-3:] == ["--", "sleep", "2"]
    assert environment["PINCHPOINT_BENCH"] == "abc"
    assert profile.read().samples == 4


def test_softirqs_are_sampled_by_cpu_where_no_thread_forwards():
    host = FakeHost(ON_CPUS)
    profile = functions_of(host, Forwarding(cpus=(1,)))
    assert profile.can_run() is None
    profile.start(2.0)
    (argv, _) = host.started[0]
    assert argv[argv.index("-C") + 1] == "1"
    assert (profile.threads, profile.read().samples) == (("softirq on CPU 1",), 1)


def test_the_next_event_is_tried_where_the_first_is_refused():
    host = FakeHost(refusals=1)
    assert functions_of(host).can_run() is None
    assert [argv[argv.index("-e") + 1] for argv in host.commands if "-e" in argv] == ["cycles", "cpu-clock"]


@pytest.mark.parametrize(
    ("host", "forwarding", "words"),
    [
        (FakeHost(installed=False), Forwarding(NAMES), "perf is not installed: apt-get install linux-perf"),
        (FakeHost(refusals=2), Forwarding(NAMES), "is limited.): sysctl -w kernel.perf_event_paranoid=-1"),
        (FakeHost(), Forwarding(), "names no thread"),
    ],
)
def test_what_cannot_be_sampled_is_said_with_the_command_that_mends_it(host, forwarding, words):
    said = functions_of(host, forwarding).can_run()
    assert words in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("host", "words"),
    [
        (FakeHost(""), "no sample found pmd-c01/id:7, main at work"),
        (FakeHost(size=1 << 40), "more than"),
        (FakeHost("nonsense\n"), "line 1"),
    ],
)
def test_samples_that_cannot_be_used_are_refused(host, words):
    profile = functions_of(host)
    profile.can_run()
    profile.start(2.0)
    with pytest.raises(BenchError, match=words):
        profile.read()


def test_nothing_is_read_that_was_not_started():
    with pytest.raises(BenchError, match="before it could be sampled"):
        functions_of(FakeHost()).read()


def test_a_recording_that_does_not_end_is_asked_to_and_then_ended(monkeypatch):
    monkeypatch.setattr(perf, "_END_S", 0.05)
    host = FakeHost(stubborn=True)
    profile = functions_of(host)
    profile.can_run()
    profile.start(2.0)
    profile.read()
    assert host.signals[:2] == [signal.SIGINT, signal.SIGTERM]
    profile.stop()
    assert host.signals.count(signal.SIGTERM) == 1, "nothing runs any more"
