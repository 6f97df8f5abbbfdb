"""Ten causes planted in real devices: each is among those that are named, however busy the host is.

Only plants whose sign does not depend on which of two programs is faster. `make bench-causes` has all of them, and asks
which is named first.
"""

import json

import pytest
from bench_tools import run
from cause_plants import PLANTS

pytestmark = [
    pytest.mark.usefixtures("nothing_left"),
    pytest.mark.tier2("planted causes are named"),
    pytest.mark.needs("dpdk"),
]
ESSENTIAL = ("tracking limit", "nft: token bucket", "reference: false offload")
SEEN_ON_ANY_HOST = (
    *ESSENTIAL,
    *(
        pytest.param(name, marks=pytest.mark.subject(target="test-causes"))
        for name in (
            "MTU",
            "policer",
            "ingress policer",
            "main thread",
            "AF_XDP: two outputs",
            "nft: rule drop",
            "zone limit",
        )
    ),
)
NAMED = {plant.name: plant for plant in PLANTS}
TRAFFIC_S = 2.0  # of fewer than six trials no rate is told, and no cause of it
# What was offered is judged, however little that is: a cause shows at any load, and no rate is looked at.
AS_OFFERED = """
[validity]
shortfall_ratio = 0.99
gap_shortfall_ratio = 0.99
"""


@pytest.mark.parametrize("name", SEEN_ON_ANY_HOST)
def test_a_planted_cause_is_named(name, tmp_path):
    plant, path = NAMED[name], tmp_path / "planted.toml"
    path.write_text(plant.text(TRAFFIC_S) + AS_OFFERED)
    with plant.beside():
        done = run("run", path, "--quiet", "--json", "--out", tmp_path / "runs")
    assert done.returncode in (0, 1), done.stderr
    (result,) = json.loads(done.stdout)["scenarios"]
    named = [suspicion["cause"] for suspicion in result["verdict"]["suspicions"]]
    assert set(named) & set(plant.causes), (result["verdict"]["headline"], named)
