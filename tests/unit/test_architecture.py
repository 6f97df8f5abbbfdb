"""Invariants of the lab's structure, stated by what is absent (ARCHITECTURE.md)."""

import ast
import re
import sys
import traceback
from contextlib import contextmanager, nullcontext
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

from pinchpoint.cli import run as cli_run
from pinchpoint.cli.main import run_and_exit
from pinchpoint.measure import frames
from pinchpoint.measure.standing import Standing
from pinchpoint.observe.snapshot import Bracket
from pinchpoint.run import scenario as run_scenario

PACKAGE = Path(__file__).parents[2] / "lab" / "pinchpoint"
ENGINE = Path(__file__).parents[2] / "engine"
CRATES = sorted(path.parent for path in ENGINE.glob("*/Cargo.toml"))
PARTS = sorted(path.name for path in PACKAGE.iterdir() if path.is_dir() and (path / "__init__.py").exists())

MAY_IMPORT = {
    "model": set(),
    "keys": {"model"},
    "scenario": {"model", "keys", "dut", "measure"},
    "host": {"model"},
    "dut": {"model", "keys", "host", "bench", "bulk", "engine", "observe"},
    "account": {"model", "engine"},
    "stats": {"model"},
    "causes": {"model", "account"},
    "findings": {"model", "account", "stats"},
    "measure": {
        *("model", "keys", "host", "bench", "bulk", "dut", "engine", "observe"),
        *("account", "stats", "causes", "search"),
    },
    "bench": {"model", "host"},
    "bulk": {"model", "host", "bench"},
    "engine": {"model", "host"},
    "observe": {"model", "host", "bench"},
    "search": {"model"},
    "store": {"model"},
    "export": {"model"},
    "api": {"model", "host", "store", "export"},
    "report": {"model", "scenario", "measure"},
    "run": {
        *("model", "host", "bench", "dut", "engine", "observe", "store"),
        *("account", "stats", "causes", "findings", "measure"),
    },
    "campaign": {"model", "keys", "scenario", "host", "run", "store", "stats", "findings"},
    "otg": {"model", "host", "engine"},
    "profiles": {"model", "host", "engine"},
    "serve": {
        *("model", "keys", "scenario", "host", "dut", "report", "store"),
        *("findings", "measure", "run"),
    },
    "mcp": {"model", "host", "report", "run", "serve"},
    "cli": {
        *("model", "scenario", "host", "bench", "dut", "engine", "report", "store"),
        *("stats", "findings", "measure", "run", "serve", "mcp", "otg", "export", "api", "profiles", "campaign"),
    },
}
DOES_NO_IO = ("model", "search", "account", "stats", "causes", "findings", "report", "export")
IO_MODULES = {"subprocess", "socket", "pathlib", "shutil", "tempfile", "urllib", "http", "os", "io", "mmap"}
IO_CALLS = {"open", "print", "read_text", "read_bytes", "write_text", "write_bytes"}
MAY_READ = {"report/page.py": "asset"}  # its own templates, in this function
MOST_LINES = 500  # of a file: an idea
STARTING_MODULES = {"subprocess", "multiprocessing", "pty"}
STARTING_CALLS = re.compile(r"os\.(posix_spawnp?|spawn\w+|fork|forkpty|exec\w+|system|popen)")
STARTS_PROCESSES = {
    *("host/interface.py", "host/ssh.py", "host/many.py", "host/confined.py", "host/confinement.py"),
    "engine/process.py",
}


parsed = cache(ast.parse)


@cache
def nodes_of(text):
    """Every node of the syntax tree."""
    return tuple(ast.walk(parsed(text)))


@cache
def imports_of(text):
    """The modules that a text imports."""
    names = [alias.name for node in nodes_of(text) if isinstance(node, ast.Import) for alias in node.names]
    return names + [node.module for node in nodes_of(text) if isinstance(node, ast.ImportFrom) and node.module]


def modules(part):
    return sorted((PACKAGE / part).rglob("*.py"))


@pytest.mark.parametrize("part", PARTS)
def test_each_part_imports_only_what_it_may(part):
    for path in modules(part):
        for name in imports_of(path.read_text()):
            if name.startswith("pinchpoint."):
                other = name.split(".")[1]
                assert other == part or other in MAY_IMPORT[part], f"{path.name} imports {name}"


def does_io(text, but_for=""):
    """The modules and calls by which a module could read or write, `but_for` one function."""
    tree = parsed(text)
    excused = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == but_for]
    calls = {called(node) for node in nodes_of(text) if isinstance(node, ast.Call)}
    calls -= {called(node) for part in excused for node in ast.walk(part) if isinstance(node, ast.Call)}
    modules = {name.split(".")[0] for name in imports_of(text)}
    return modules & IO_MODULES | {name for name in calls if name.split(".")[-1] in IO_CALLS}


def called(call):
    """`os.fork` of `os.fork()`; of a call on a result, the method's name alone."""
    words, node = [], call.func
    while isinstance(node, ast.Attribute):
        words.append(node.attr)
        node = node.value
    return ".".join(reversed([*words, node.id] if isinstance(node, ast.Name) else words))


def starts_processes(text):
    """Whether a module could start a process: by a module made for it, or by calls and names of os."""
    names = {
        f"{node.value.id}.{node.attr}"
        for node in nodes_of(text)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    }
    names |= {
        f"{node.module}.{alias.name}"
        for node in nodes_of(text)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return bool(
        STARTING_MODULES & {name.split(".")[0] for name in imports_of(text)}
        or any(STARTING_CALLS.fullmatch(name) for name in names)
    )


@pytest.mark.parametrize("part", DOES_NO_IO)
def test_pure_parts_do_no_io(part):
    for path in modules(part):
        name = str(path.relative_to(PACKAGE))
        assert not does_io(path.read_text(), MAY_READ.get(name, "")), name


@pytest.mark.parametrize(
    "text",
    ["import os", "from pathlib import Path", "open('x')", "x.read_text()", "def f():\n    a('b').write_bytes(1)"],
)
def test_what_reads_or_writes_is_noticed(text):
    assert does_io(text)
    assert not does_io("def _asset(name):\n    return a(name).read_text()", "_asset")


def test_processes_are_started_in_few_places():
    starting = {str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.py") if starts_processes(path.read_text())}
    assert starting == STARTS_PROCESSES


@pytest.mark.parametrize(
    "text",
    [
        "import subprocess",
        "from subprocess import run",
        "from os import fork",
        "os.posix_spawn(a, b, c)",
        "start = os.posix_spawnp",
        "os.fork()",
        "os.execve(a, b, c)",
        "os.system('x')",
        "import multiprocessing.pool",
    ],
)
def test_whatever_starts_a_process_is_noticed(text):
    assert starts_processes(text)
    assert not starts_processes("import os\nos.kill(1, 2)\nself.executor.submit(a)")


HOSTS = re.compile(r"\b(Host|Machine|Local|Ssh|Guest|Machines)\b")  # and what has them; by whichever name
MAKE_HOSTS = {"Local", "Ssh", "Guest", "Machines"}
EDGES = ("cli", "api", "serve", "campaign")  # begin, and hand down the machine on which they run
AGENTS = {"host/agent.py"}  # begin on other hosts


def ambient_hosts(text):
    """What has a host that nobody handed to it: a context, a module, an argument left out, a function of nothing."""
    tree = parsed(text)
    if "contextvars" in set(imports_of(text)):
        yield "a context"
    bodies = [tree, *(node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))]
    kept = [
        statement
        for body in bodies
        for statement in body.body
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value
    ]
    for call in (node for statement in kept for node in ast.walk(statement.value) if isinstance(node, ast.Call)):
        if called(call) in MAKE_HOSTS or called(call).endswith("ContextVar"):
            yield f"line {call.lineno}: {ast.unparse(call)}"
    for node in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        args = [*node.args.posonlyargs, *node.args.args]
        defaults = [*zip(args[::-1], node.args.defaults[::-1], strict=False)]
        defaults += [
            (arg, default) for arg, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True) if default
        ]
        for arg, default in defaults:
            annotated = ast.unparse(arg.annotation) if arg.annotation else ""
            if HOSTS.search(annotated) and arg.arg in ("host", "machine", "machines", "lab"):
                yield f"{node.name}: {arg.arg} = {ast.unparse(default)}"
        if not args and not node.args.kwonlyargs and node.returns and HOSTS.search(ast.unparse(node.returns)):
            yield f"{node.name}() -> {ast.unparse(node.returns)}"


def test_a_host_is_handed_down_from_the_edges():
    for path in sorted(PACKAGE.rglob("*.py")):
        name, text = str(path.relative_to(PACKAGE)), path.read_text()
        assert list(ambient_hosts(text)) == [], name
        if name.split("/")[0] not in EDGES and name not in AGENTS:
            made = {called(node) for node in ast.walk(parsed(text)) if isinstance(node, ast.Call)}
            assert "Local" not in made, name


@pytest.mark.parametrize(
    "text",
    [
        "from contextvars import ContextVar",
        "OWN: Final[Host] = Local()",
        "class Acts:\n    host = Machines(Local())",
        "def read(host: Host | None = None): ...",
        "def read(*, machines: Machines = _MACHINES): ...",
        "@cache\ndef at_hand() -> Host: ...",
    ],
)
def test_a_host_that_nobody_handed_down_is_noticed(text):
    assert list(ambient_hosts(text))
    assert not list(ambient_hosts("def read(host: Host) -> str:\n    return Local().read('x')"))


REACH_HOSTS = ("bench", "bulk", "dut", "observe")  # whatever they touch may be another host's
MAKES_LINKS = {"model/scenario.py"}  # of what a port and an end of a socket workload name: `Scenario.link`
CONNECTS = {"model/site.py", "host/machines.py", "run/host_recovery.py", "run/scenario.py", "campaign/read.py"}
MAY_ASK = {
    **dict.fromkeys(("pci", "engine_pci", "engine_interface", "end_interface"), MAKES_LINKS),
    **dict.fromkeys(("runs_on", "engine_runs_on"), frozenset[str]()),  # the raw file is asked: dut/checks.py
    "remote": CONNECTS,
}
"""By a field that says where something stands, or what it is reached by: who may read it."""


def fields_read(text):
    """Names of attributes that are read and not called."""
    methods = {id(node.func) for node in nodes_of(text) if isinstance(node, ast.Call)}
    return {node.attr for node in nodes_of(text) if isinstance(node, ast.Attribute) and id(node) not in methods}


def test_where_parts_of_a_bench_stand_is_decided_as_a_scenario_is_read_and_asked_of_its_sites_and_links():
    readers = {field: set() for field in MAY_ASK}
    for path in sorted(PACKAGE.rglob("*.py")):
        for field in readers.keys() & fields_read(path.read_text()):
            readers[field].add(str(path.relative_to(PACKAGE)))
    assert readers == MAY_ASK


@pytest.mark.parametrize("text", ["port.pci is None", "if scenario.site.remote: pass", "[end.remote for end in ends]"])
def test_a_question_where_something_stands_is_noticed(text):
    assert fields_read(text) & MAY_ASK.keys()
    assert not fields_read("actor.remote()\nkernel.runs_on(host)") & MAY_ASK.keys()


def optional_hosts(text):
    """Parameters and fields that may have no host where one is meant."""
    for node in nodes_of(text):
        annotation = node.annotation if isinstance(node, ast.arg | ast.AnnAssign) else None
        parts = ast.unparse(annotation).split(" | ") if annotation else []
        if "None" in parts and any(re.fullmatch(r"(\w+\.)?(Host|Machine|Machines|Site)", part) for part in parts):
            yield f"line {node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("part", [*REACH_HOSTS, "measure", "run"])
def test_who_reaches_a_host_is_given_one(part):
    """Then the type checker names who forgets it."""
    for path in modules(part):
        assert list(optional_hosts(path.read_text())) == [], path


def test_a_host_that_may_be_left_out_is_noticed():
    assert list(optional_hosts("def read(site: Site | None): ...\nclass Made:\n    host: Machine | None"))
    assert not list(optional_hosts("def read(host: Host, netns: str | None): ..."))


KERNELS_FILES = re.compile(r"/(proc|sys/(class|devices|kernel|module)|run/netns)(/|$)")
OWN_FILES = {"bench/journal.py", "dut/ovs/device.py", "dut/ovs/bench.py", "dut/registry.py"}


def kernels_files(text):
    """Literals, docstrings left out, that name files of the kernel."""
    docs = {id(node.value) for node in nodes_of(text) if isinstance(node, ast.Expr)}
    for node in nodes_of(text):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
        if is_text and KERNELS_FILES.match(node.value):
            yield node.value


def test_the_kernels_files_and_sockets_are_a_hosts():
    """What runs on another host must be asked there: `Host.read`, `run`, `connect`."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = str(path.relative_to(PACKAGE))
        if name.startswith("host/") or name == "engine/process.py":
            continue
        assert list(kernels_files(path.read_text())) == [], name
        assert "socket" not in set(imports_of(path.read_text())), name


@pytest.mark.parametrize("part", REACH_HOSTS)
def test_what_reaches_benches_reads_and_writes_by_a_host(part):
    """But for the journal, which is the lab's own, and what is asked of programs before a bench is planned."""
    for path in modules(part):
        if str(path.relative_to(PACKAGE)) not in OWN_FILES:
            used = does_io(path.read_text()) - {"pathlib", "os", "open", "self.device.open"}  # paths, Bench.open
            assert not [name for name in used if "host.read" not in name], f"{path}: {used}"


def test_a_file_of_the_kernel_is_noticed():
    assert list(kernels_files('x = f"/proc/{pid}/stat"')) == ["/proc/"]
    assert list(kernels_files('"""See /proc/stat."""\nx = f"{PROC}/stat"')) == []


def test_functions_fit_a_screen_and_files_an_idea():
    for path in PACKAGE.rglob("*.py"):
        text = path.read_text()
        assert text.count("\n") <= MOST_LINES, path
        for node in nodes_of(text):
            if isinstance(node, ast.FunctionDef):
                assert node.end_lineno is not None
                assert node.end_lineno - node.lineno < 60, f"{path}: {node.name}"


def test_files_of_the_engine_fit_an_idea_its_tests_included():
    files = [path for crate in CRATES for path in crate.rglob("*.rs")]
    assert {path.parts[len(ENGINE.parts) + 1] for path in files} >= {"src", "tests"}
    lines = {str(path.relative_to(ENGINE)): path.read_text().count("\n") for path in files}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


DECIDES = (
    "account",
    "stats",
    "causes",
    "findings",
    "search",
    "measure",
    "run",
)  # what is found out there must not hang on how a sentence is worded
LOOKING = ("startswith", "endswith", "find", "index", "count")
SENTENCES = {"reason", "headline", "sentence", "why_not", "warning", "warnings"}


def is_sentence(node):
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    return name in SENTENCES


def reads_sentences(text):
    """Lines in which a sentence is searched, or compared with anything but the empty one."""
    for node in nodes_of(text):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            pairs = list(zip(node.ops, node.comparators, strict=True))
            searched = any(isinstance(op, ast.In | ast.NotIn) and is_sentence(other) for op, other in pairs)
            same = any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops) and any(map(is_sentence, sides))
            empty = any(isinstance(side, ast.Constant) and not side.value for side in sides)
            if searched or (same and not empty):
                yield node.lineno
        looks = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LOOKING
        if looks and is_sentence(node.func.value):
            yield node.lineno


def test_sentences_that_decide_something_are_found():
    assert list(reads_sentences('"noisy" in trial.reason')) == [1]
    assert list(reads_sentences('rate.reason.startswith("generator-limited")')) == [1]
    assert list(reads_sentences('one.reason == "x"')) == [1]
    assert list(reads_sentences('f"{one.reason}" if one.reason else ""')) == []


@pytest.mark.parametrize("part", DECIDES)
def test_no_sentence_drives_logic(part):
    """Typed facts do (Cause, Limit, RateStatus, Warn); sentences are made of them."""
    for path in modules(part):
        assert list(reads_sentences(path.read_text())) == [], path.name


def test_no_measure_but_the_search_for_rates_is_known_outside_its_own_folder():
    measures = {path.parent.name for path in (PACKAGE / "measure").glob("*/__init__.py")} - {"rates"}
    for path in sorted(PACKAGE.rglob("*.py")):
        own = path.parent.name if path.parent.parent == PACKAGE / "measure" else ""
        for name in imports_of(path.read_text()):
            others = [name.startswith(f"pinchpoint.measure.{other}") for other in measures - {own}]
            assert not any(others), f"{path.relative_to(PACKAGE)} imports {name}"


A_MEASURES_NAME = re.compile(r'\bmeasure(?:ment)?(?:\.kind|"\))? (?:==|!=) "')
KNOW_A_MEASURE = {  # by its stored word: a format of others has types of its own, definitions and keys are compared
    *("export/csit.py", "findings/answers.py", "findings/differences.py", "scenario/service_keys.py"),
    *("report/words.py", "report/trial_figures.py"),
}


def test_what_a_measure_is_like_is_asked_of_what_it_declares():
    texts = (path for path in PACKAGE.rglob("*") if path.name.endswith((".py", ".j2")))
    names = {str(path.relative_to(PACKAGE)) for path in texts if A_MEASURES_NAME.search(path.read_text())}
    assert names == KNOW_A_MEASURE


def test_a_measure_that_is_asked_for_by_name_is_noticed():
    assert A_MEASURES_NAME.search('{% if result.measure != "rates" %}')
    assert not A_MEASURES_NAME.search('say measure = "rates"')


PRODUCT = re.compile(r"\bovs|\bipvs|openvswitch|nftables|testpmd|haproxy|nginx|envoy|dpvs", re.IGNORECASE)


def test_no_product_is_known_outside_its_own_folder():
    for path in sorted(PACKAGE.rglob("*.py")):
        if "dut" not in path.relative_to(PACKAGE).parts[:1] or path.parent.name == "dut":
            assert not (match := PRODUCT.search(path.read_text())), f"{path.name}: {match[0]}"


DEVICES_WORDS = re.compile(r"(?<!test)pmd|emc_|\bEMC\b|megaflow|upcall|rxq", re.IGNORECASE)  # of Open vSwitch
READS_OLDER_FILES = "model/former.py"
TEXTS = (".py", ".j2", ".html", ".js", ".ts")


def test_one_devices_words_for_threads_and_caches_stay_in_its_folder():
    """But for the module that reads files of older schemas, in which every device had them."""
    for path in sorted(path for path in PACKAGE.rglob("*") if path.name.endswith(TEXTS)):
        name = str(path.relative_to(PACKAGE))
        if not name.startswith(("dut/ovs/", "studies/")) and name != READS_OLDER_FILES:
            assert not (match := DEVICES_WORDS.search(path.read_text())), f"{name}: {match[0]}"
    assert DEVICES_WORDS.search((PACKAGE / READS_OLDER_FILES).read_text()), "it needs no exception"


@pytest.mark.parametrize("text", ["a PMD core", "pmds", "emc_hits", "the EMC", "upcalls", "rxq_affinity", "Megaflows"])
def test_a_word_of_one_device_is_noticed(text):
    assert DEVICES_WORDS.search(text)
    assert not DEVICES_WORDS.search("testpmd, memcached, rx queues")


def test_only_what_measures_a_generator_names_a_kind_of_device():
    kinds = {path.parent.name for path in (PACKAGE / "dut").glob("*/__init__.py")}
    without_device = [PACKAGE / "run" / name for name in ("ceiling.py", "external_generator.py")]
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.parent.name in kinds or path in without_device:
            continue
        for name in imports_of(path.read_text()):
            assert name.split(".")[1:3] not in [["dut", kind] for kind in kinds], f"{path.name} imports {name}"


MOST_CALLS = 14  # in the lab, from the command to the engine


class Reached(Exception):
    """The engine was asked for the first trial."""


class FirstTrial:
    """An engine that notes by which calls of the lab it is reached."""

    def __init__(self):
        self.calls = []

    def open(self):
        return {}

    def close(self):
        """Nothing is open."""

    stop = close

    def run(self, request):
        stack = ((Path(call.filename), call.name) for call in traceback.extract_stack())
        self.calls = [f"{path.relative_to(PACKAGE)}: {name}" for path, name in stack if PACKAGE in path.parents]
        raise Reached


@contextmanager
def standing(setup, engine, task):
    yield Standing(setup, SimpleNamespace(ready=dict, settings=dict), engine, task, 0.0)


def planned(machines, wanted, *_):
    return SimpleNamespace(scenario=wanted, engines=(), places=SimpleNamespace(machine=machines.lab)), []


def test_few_calls_lead_from_the_command_to_the_first_trial(monkeypatch, tmp_path):
    """Building is left out: it has ended by then."""
    engine, nothing = FirstTrial(), lambda *_: nullcontext()
    for where, name, instead in (
        (cli_run, "held", nothing),
        (cli_run, "require_any", nothing),
        (run_scenario, "planned", planned),
        (run_scenario, "live_bench", standing),
        (run_scenario.vm_ends, "settings", lambda *_: {}),
        (Standing, "bracket", lambda _: Bracket([])),
        (frames, "_instrument_of", lambda _: engine),
        (frames, "await_engine_pages", nothing),
        (frames, "kept_off", nothing),
        (sys, "argv", ["pinchpoint", "run", "quickstart", "--quiet", "--no-ceiling", "--out", str(tmp_path)]),
    ):
        monkeypatch.setattr(where, name, instead)
    with pytest.raises(Reached):
        run_and_exit()
    assert engine.calls[0].startswith("cli/main.py") and engine.calls[-1] == "measure/session.py: trial"
    assert len(engine.calls) <= MOST_CALLS, "\n".join(engine.calls)


def test_only_the_session_makes_trials_of_frames():
    """Whoever else has an engine send frames makes no trial of them: load in the background, a ceiling, slices."""
    calls = {
        str(path.relative_to(PACKAGE)): {
            called(node) for node in nodes_of(path.read_text()) if isinstance(node, ast.Call)
        }
        for path in PACKAGE.rglob("*.py")
    }
    asking = {name for name, made in calls.items() if "TrialRequest" in made}
    assert asking == {"measure/session.py", "measure/traffic.py", "run/ceiling.py", "run/duet.py"}
    assert {name for name in asking if "Trial" in calls[name]} == {"measure/session.py"}


LOOP = "measure/loop.py"
ROUND_A_TRIAL = {  # what is done round a trial, whatever is sent: by whom beside the loop, and why
    r"bracket\.(open|close|turn)": {
        "measure/session.py",  # asks whether the device lives when frames of no trial could not be sent
        "measure/blocked/run.py",  # reads once more within a trial: a process is about to end
        "measure/change/run.py",  # by the engine's clock: it has ended, and taken its times along, before its account
        "measure/soak/run.py",  # round the windows of one trial, while its frames are sent
        "run/watch.py",  # a device in service: there is no trial
    },
    r"task\.record(s|ed)": {
        "measure/frames.py",  # hands them to the session, whose loop replays them
        "run/paired_benches.py",  # the same for two benches; numbers of trials that belong to the other one
        "run/relative.py",  # numbers the trials beside the reference after those of the search
        "measure/soak/run.py",  # what ended transmissions before the run was resumed: a warning
        "run/scenario.py",  # whether a search had begun, with which ceilings
    },
    r"task\.keep": {
        "measure/frames.py",  # hands it to the session
        "run/paired_benches.py",  # the same; under the name of the bench that a trial belongs to
        "run/relative.py",  # the same; counts what was kept
    },
    r"\.(trial|measurement)_(begins|ends)": {
        "measure/session.py",  # tells its loop that it takes trials
        "run/duet.py",  # all slices of a comparison at once
        "run/ceiling.py",  # a trial of the generator, which is in no account
    },
}


@pytest.mark.parametrize("what", ROUND_A_TRIAL)
def test_one_loop_replays_observes_keeps_and_announces_whatever_is_sent(what):
    """By every mention of it, called or handed on."""
    done_by = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(what, text := path.read_text())
        for node in nodes_of(text)
        if isinstance(node, ast.Attribute) and re.search(rf"{what}$", ast.unparse(node))
    }
    assert done_by == {LOOP, *ROUND_A_TRIAL[what]}


MADE_IN = {
    "Loop": {LOOP, "measure/session.py", "run/duet.py"},  # of measurements, trials, slices
    "Interrupted": {LOOP, "cli/run.py"},  # there of what was interrupted before anything was measured
    "ScenarioResult": {"measure/summary.py"},
    "Measurement": {"measure/standing.py"},
    "Bracket": {"measure/standing.py"},
    "ResultWarning": {"model/warning.py"},
    "Judgement": {"account/validity.py"},
    "LoadJudgement": {"account/validity.py"},
    "EngineResult": {"engine/trials.py", "engine/multi_engine.py"},
}


@pytest.mark.parametrize("name", MADE_IN)
def test_results_brackets_judgements_and_accounts_are_made_in_one_place(name):
    makers = {
        str(path.relative_to(PACKAGE))
        for path in sorted(PACKAGE.rglob("*.py"))
        if any(isinstance(node, ast.Call) and called(node) == name for node in ast.walk(parsed(path.read_text())))
    }
    assert makers == MADE_IN[name]


JUDGE = "account/validity.py"
READ_STORED = {"model/result.py", "report/words.py"}  # a point stored without one; words for one that was counted


def judgements(text):
    """Lines that give a validity. Comparisons, keys and sets of them give none."""
    compared = set()
    for node in nodes_of(text):
        if isinstance(node, ast.Compare | ast.MatchValue):
            compared |= set(map(id, ast.walk(node)))
        elif isinstance(node, ast.Dict):
            compared |= set(map(id, node.keys))
        elif isinstance(node, ast.Subscript):
            compared.add(id(node.slice))
        elif isinstance(node, ast.Tuple | ast.Set) and all(map(is_validity, node.elts)):
            compared |= set(map(id, node.elts))
    for node in nodes_of(text):
        is_made = isinstance(node, ast.Call) and called(node).split(".")[-1] == "TrialValidity"
        if is_made or (is_validity(node) and id(node) not in compared):
            yield node.lineno


def is_validity(node):
    return isinstance(node, ast.Attribute) and ast.unparse(node.value).split(".")[-1] == "TrialValidity"


def test_one_judge_says_whether_an_account_can_be_used():
    """What else is known of it (a device that died or was changed, noise) is told to the judge."""
    givers = {
        str(path.relative_to(PACKAGE)) for path in sorted(PACKAGE.rglob("*.py")) if list(judgements(path.read_text()))
    }
    assert givers == {JUDGE, *READ_STORED}


@pytest.mark.parametrize(
    "text",
    [
        "replace(trial, validity=TrialValidity.VALID)",
        "validity = TrialValidity.NOISY_HOST if noise else kept",
        "def judge(): return TrialValidity.ABORTED, 'gone'",
        "def ended(validity=trial.TrialValidity.VALID): ...",
        "TrialValidity('valid')",
    ],
)
def test_a_judgement_that_another_makes_is_noticed(text):
    assert list(judgements(text))


@pytest.mark.parametrize(
    "text",
    [
        "trial.validity is not TrialValidity.VALID",
        "validity in (TrialValidity.VALID, TrialValidity.ABORTED)",
        "_UNUSABLE = (TrialValidity.ABORTED, TrialValidity.NOISY_HOST)",
        "MARKS = {TrialValidity.VALID: 'circle'}",
        "invalid[TrialValidity.NOISY_HOST] > 0",
        "replace(point, validity=trial.validity)",
    ],
)
def test_what_asks_for_a_judgement_makes_none(text):
    assert not list(judgements(text))
