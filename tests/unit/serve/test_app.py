import re
from dataclasses import replace
from time import monotonic, sleep

import pytest
from sample import sample_run
from sample_study import study_run
from served import LATER, PORT, TOKEN, explanation, keep, keep_campaign, workshop
from starlette.testclient import TestClient

from pinchpoint.model.campaign import MachineProgress
from pinchpoint.model.warning import Warn
from pinchpoint.serve import form
from pinchpoint.serve.app import application
from pinchpoint.serve.guard import HEADERS

HOME = f"http://127.0.0.1:{PORT}"
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=1>"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("serve") / "runs"
    info, result, trials = sample_run()
    for name in ("one", "two", "three"):
        keep(root, name, (info, result, trials))
    keep(root, "going", (info, result, trials[:30]), done=1)
    keep(root, "study", study_run())
    keep(root, "explained", (info, replace(result, explanations=(explanation("snat-255"),)), trials))
    machines = (
        MachineProgress("dut1", "measures", "snat-255", 1234, 7),
        MachineProgress(HOSTILE, HOSTILE, HOSTILE, reason=HOSTILE),
        MachineProgress("dut3", "excluded", reason="0.85 times the median machine"),
    )
    keep_campaign(root, "campaign", *machines)
    hostile = replace(result.scenarios[0], scenario=HOSTILE, title=HOSTILE, warnings=(Warn.OTHER.of(HOSTILE),))
    asked = ({**info.scenarios[0], "name": HOSTILE, "title": HOSTILE},)
    theirs = tuple(replace(trial, id=HOSTILE, scenario=HOSTILE, reason=HOSTILE) for trial in trials[:1])
    bad = replace(info, scenarios=asked, argv=(HOSTILE,), sources={HOSTILE: HOSTILE}, host={"processor": HOSTILE})
    keep(root, "hostile", (bad, replace(result, scenarios=(hostile,)), theirs))
    return root


@pytest.fixture
def parts(root):
    return workshop(root)


@pytest.fixture
def client(parts):
    return TestClient(application(parts), base_url=HOME, follow_redirects=False)


def signed(client):
    client.cookies.set(f"pinchpoint-{PORT}", TOKEN)
    return client


def post(client, parts, act, origin=HOME, **fields):
    return client.post(f"/act/{act}", data={"word": parts.guard.word, **fields}, headers={"origin": origin})


@pytest.mark.parametrize(
    "path",
    [
        "/", "/?text=snat&kind=ovs&since=2026-01-01&page=1", "/run/one", "/run/going", "/run/going/live", "/run/study",
        "/run/campaign", "/run/campaign/live", "/run/explained", "/run/explained/scenario/snat-255",
        "/run/one/scenario/snat-255", "/run/one/trial/snat-255-0006", "/run/one/file/result.json",
        "/compare?run=one&run=two", "/compare?run=one&run=two&run=study",
        "/trend", "/trend?scenario=snat-255&metric=NDR",
        "/new", "/new?kind=nft&measure=verify", "/new?measure=bandwidth", "/asset/report.js", "/asset/serve.css",
    ],
)  # fmt: skip
def test_every_page_is_there_with_its_headers(client, path):
    answer = client.get(path)
    assert answer.status_code == 200, answer.text[:400]
    for name, value in HEADERS.items():
        assert answer.headers[name] == value


def test_trends_of_too_few_runs_say_so(client):
    nothing = client.get("/trend").text
    assert "No scenario has 10 runs yet" in nothing and not re.findall(r'<option value="([^"]+)"', nothing)


def test_a_campaign_in_progress_tells_what_each_machine_does_and_the_time_left(client):
    html = client.get("/run/campaign/live").json()["html"]
    rows = [re.sub(r"<[^>]+>", "|", row) for row in html.split("<tr>")[2:]]
    first, last = (re.sub(r"\|+", "|", rows[number]) for number in (0, 2))
    assert first.startswith("|dut1|measures|snat-255|1,234|7|")
    assert last.startswith("|dut3|excluded|0|0|0.85 times the median machine|")
    assert "<strong>2 of 3</strong> scenarios, about 10 min left" in html


def test_names_and_reasons_of_machines_are_escaped(client):
    for html in (client.get("/run/campaign").text, client.get("/run/campaign/live").json()["html"]):
        assert html.count("&lt;img src=x") >= 4
        assert "<img src=x" not in html
        assert "<script>document" not in html


@pytest.mark.parametrize(
    "path",
    [
        "/nope", "/run/nope", "/run/one/scenario/nope", "/run/one/trial/nope", "/run/one/file/report.html",
        "/run/..%2f..%2fetc", "/run/one/file/..%2f..%2fx", "/asset/..%2fapp.py", "/compare", "/trend?scenario=nope",
        "/compare?run=one&run=nope", "/started/nope", "/started/..%2fone",
    ],
)  # fmt: skip
def test_what_is_not_there_is_a_page_that_says_what_to_do(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    assert "<h1>" in answer.text and 'href="/"' in answer.text


@pytest.mark.parametrize(
    "host", ["evil.example", f"evil.example:{PORT}", "127.0.0.1:1", "127.0.0.1", "", "127.0.0.1.nip.io"]
)
def test_a_request_for_another_host_is_refused(client, host):
    answer = client.get("/", headers={"host": host})
    assert answer.status_code == 421 and "one" not in answer.text.partition("<main")[2].partition("loopback")[0]


def test_the_token_in_the_address_becomes_a_cookie_that_scripts_cannot_read(client):
    answer = client.get(f"/?token={TOKEN}")
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert client.get("/?token=wrong").status_code == 403


@pytest.mark.parametrize("act", ["stop", "resume", "new"])
def test_without_the_cookie_nothing_acts(client, parts, act):
    assert post(client, parts, act, run="going").status_code == 403


@pytest.mark.parametrize(
    "origin", ["", "null", "http://evil.example", f"https://127.0.0.1:{PORT}", "http://127.0.0.1:1"]
)
def test_a_form_of_another_site_does_not_act(client, parts, origin):
    assert post(signed(client), parts, "stop", origin=origin, run="going").status_code == 403


def test_a_form_without_its_word_does_not_act(client):
    fields = {"run": "going"}
    assert signed(client).post("/act/stop", data=fields, headers={"origin": HOME}).status_code == 403
    assert signed(client).get("/act/stop").status_code == 405


def test_large_and_strange_bodies_are_refused(client, parts):
    signed(client)
    assert post(client, parts, "new", text="x" * (1 << 20)).status_code == 413
    assert client.post("/act/stop", json={"run": "going"}, headers={"origin": HOME}).status_code == 415


def test_the_word_is_given_only_to_who_may_act(client, parts):
    assert parts.guard.word not in client.get("/run/going").text
    assert parts.guard.word in signed(client).get("/run/going").text


def test_what_no_process_measures_cannot_be_stopped(client, parts):
    answer = post(signed(client), parts, "stop", run="going")
    assert answer.status_code == 404 and "no process" in answer.text


@pytest.mark.parametrize(
    "path",
    ["/", "/run/hostile", "/run/hostile/scenario/{0}", "/run/hostile/trial/{0}", "/trend?scenario={0}", "/trend",
     "/compare?run=hostile&run=one&run=two", "/?text={0}", "/new?kind={0}&measure={0}"],
)  # fmt: skip
def test_texts_of_runs_and_addresses_are_never_markup(client, path):
    from urllib.parse import quote

    answer = client.get(path.format(quote(HOSTILE, safe="")))
    assert answer.status_code == 200
    assert "<script>document" not in answer.text and "<img src=x" not in answer.text


def test_the_page_of_a_run_says_which_interval_is_wider_than_was_asked_for(client):
    assert client.get("/run/one").text.count("NDR interval 0.51 % wide, 0.5 % was asked for") == 1


def test_trends_offer_what_has_enough_runs_and_say_which_have_fewer(tmp_path):
    info, result, trials = sample_run()
    often, once = (replace(result, scenarios=result.scenarios[at : at + 1]) for at in (0, 1))
    for number in range(10):
        keep(tmp_path / "runs", f"often-{number}", (info, often, trials[:1]))
    keep(tmp_path / "runs", "once", (info, once, trials[:1]))
    client = TestClient(application(workshop(tmp_path / "runs")), base_url=HOME)
    page = client.get("/trend").text
    assert '<option value="forward">forward (10 runs)</option>' in page and '<option value="snat-255"' not in page
    assert "1 scenario not offered: a trend needs at least 10 runs" in page and ">snat-255</a> (1 run)" in page
    chosen = client.get("/trend?scenario=snat-255").text
    assert (
        '<option value="snat-255" selected>' in chosen
        and "too few runs to tell a change from chance: 1 of 10" in chosen
    )


def test_a_run_is_compared_with_the_one_before_it(tmp_path):
    keep(tmp_path / "runs", "first", sample_run())
    keep(tmp_path / "runs", "second", sample_run(), started=LATER)
    client = TestClient(application(workshop(tmp_path / "runs")), base_url=HOME)
    assert (
        'href="/compare?run=first&amp;run=second">Against the run before, first</a>' in client.get("/run/second").text
    )
    assert "Against the run before" not in client.get("/run/first").text


def test_two_runs_without_a_common_scenario_are_compared_by_pairs_that_one_chooses(client):
    other = study_run()[1].scenarios[0].scenario
    page = client.get("/compare?run=one&run=study").text
    assert "no scenario in common" in page and f"<option selected>{other}</option>" in page
    compared = client.get(f"/compare?run=one&run=study&a=snat-255&b={other}&a=&b=")
    assert compared.status_code == 200 and "no scenario in common" not in compared.text
    unknown = client.get(f"/compare?run=one&run=study&a=nope&b={other}")
    assert unknown.status_code == 404 and "has no scenario nope" in unknown.text


def test_what_the_form_lacks_is_reported_as_check_does(client, parts):
    answer = post(signed(client), parts, "new", name="mine", kind="ovs", measure="rates", do="check")
    assert answer.status_code == 422
    assert "mine.toml" in answer.text and "dut.datapath" in answer.text


def test_the_form_begins_with_a_dozen_keys_as_init_does_and_has_the_rest_behind_more_keys(client):
    fields = {"kind": "ovs", "measure": "rates", "field-search.drain_s": "0.1"}
    first = [field.name for part in form.parts(form.shape_of(fields), fields) for field in part.first]
    assert first == [
        "title", "dut.datapath", "dut.pmd_cpus", "dut.rules", "port[1].name", "port[2].name", "engine.cpus",
        "stream[1].from", "stream[1].to", "stream[1].frame_bytes", "stream[1].ipv4_dst", "stream[1].flows",
        "search.drain_s",
    ]  # fmt: skip
    begins, _, more = client.get("/new?kind=ovs").text.partition("<summary>More keys</summary>")
    assert begins.count('<div class="field">') == 13, "the file's name and twelve keys"
    assert 'id="f-search.relative_width"' in more and 'id="f-stream[1].flows"' not in more
    assert 'name="count-stream"' in begins and 'name="count-sweep.factor"' in more


SCENARIO = {
    "name": "mine", "kind": "ovs", "measure": "rates", "field-title": 'A "title"', "field-dut.datapath": "dpdk",
    "field-dut.pmd_cpus": "[1]", "field-dut.rules": "in_port={left},actions=output:{right}",
    "field-port[1].name": "left", "field-port[2].name": "right", "field-stream[1].from": "left",
    "field-stream[1].to": "right",
}  # fmt: skip


def test_a_scenario_from_the_form_is_started_as_one_would_type_it(tmp_path):
    root = tmp_path / "runs"
    root.mkdir()
    parts = workshop(root, command=("echo",))
    client = signed(TestClient(application(parts), base_url=HOME, follow_redirects=False))
    answer = post(client, parts, "new", **SCENARIO, do="check")
    assert answer.status_code == 200 and "<strong>ok.</strong>" in answer.text
    assert not (root / "scenarios").exists()
    for name in ("mine", "mine-2"):
        answer = post(client, parts, "new", **SCENARIO, do="start")
        assert (answer.status_code, answer.headers["location"]) == (303, f"/started/{name}")
    deadline = monotonic() + 20
    while "--quiet" not in (page := client.get("/started/mine").text) and monotonic() < deadline:
        sleep(0.05)
    assert f"run {root}/scenarios/mine.toml --out {root} --quiet" in page
    assert 'title = "A \\"title\\""' in (root / "scenarios" / "mine.toml").read_text()


@pytest.mark.parametrize("name", ["../mine", "", ".x", "a/b", "a" * 65])
def test_a_scenarios_name_leads_nowhere_else(tmp_path, name):
    root = tmp_path / "runs"
    root.mkdir()
    parts = workshop(root)
    client = signed(TestClient(application(parts), base_url=HOME, follow_redirects=False))
    assert post(client, parts, "new", **{**SCENARIO, "name": name}, do="start").status_code in (404, 422)
    assert [path.name for path in tmp_path.rglob("*.toml")] == []


def test_a_value_cannot_smuggle_a_key_in(client, parts):
    answer = post(signed(client), parts, "new", **{**SCENARIO, "field-dut.memory_mb": "1\n[dut.x]\ny = 2"}, do="check")
    assert answer.status_code == 422 and "[dut.x]\n" not in answer.text.partition("<pre")[2]
