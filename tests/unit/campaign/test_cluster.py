"""What a node of a cluster does with an attempt, without any cluster."""

from dataclasses import replace

from sample import sample_run

from pinchpoint.campaign import cluster
from pinchpoint.campaign.executor import Order
from pinchpoint.host import facts
from pinchpoint.host.local import Local
from pinchpoint.model.campaign import Bench, Campaign
from pinchpoint.run.checkpoint import require_same
from pinchpoint.store.folder import INFO


def test_an_attempt_is_begun_on_what_its_node_is_and_not_on_what_the_lab_is(monkeypatch, tmp_path):
    started = []
    monkeypatch.setattr(cluster, "Attempt", lambda folder, *_: started.append(folder))
    monkeypatch.setattr(cluster.tempfile, "mkdtemp", lambda **_: str(tmp_path))
    info = replace(
        sample_run()[0], host={**facts.host_facts(Local()), "kernel": "of the lab"}, versions={"pinchpoint": "0"}
    )
    cluster.NodeBench().start(Order("x.a1", Bench("n1"), {"run.json": INFO.encode(info, "run.json")}, {}, True))
    require_same(started[0].read_info(), Local())


def test_a_node_with_the_name_of_a_site_is_the_lab_of_its_hosts():
    site = Bench("rack", hosts={"gen": "root@gen", "dut": "root@dut"})
    asked = Campaign("c", "c", (), (site, Bench("plain", "root@plain")), (), False, 1)
    node = {"Resources": {"bench": 1, "CPU": 2}, "NodeManagerAddress": "10.0.0.1"}
    benches = [cluster._bench_of({**node, "Labels": {"machine": name}}, asked) for name in ("rack", "plain")]
    assert [bench.addresses for bench in benches] == [("root@gen", "root@dut"), ()]
