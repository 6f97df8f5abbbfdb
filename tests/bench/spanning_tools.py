"""The scenario of benches that span the hosts gen, dut and sink."""

LEASE_S = 15
SCENARIO = """
runs_on = "dut"
[host.dut]
lease_s = {lease_s}
[host.gen]
lease_s = {lease_s}
[host.sink]
lease_s = {lease_s}
[dut]
{dut}
[engine]
runs_on = "gen"
cpus = [0]
clock_error_us = 50
[[port]]
name = "left"
interface = "to-gen"
engine_interface = "eth9"
[[port]]
name = "right"
interface = "to-sink"
engine_interface = "eth9"
engine_runs_on = "sink"
[[stream]]
from = "left"
to = "right"
[search]
min_load_fps = 1000
max_load_fps = 4000
trial_duration_s = {trial_s}
initial_trial_duration_s = {trial_s}
duration_sum_s = {trial_s}
preceding_targets = 1
relative_width = 0.5
max_traffic_s = {traffic_s}
max_repeats = 50
loss_ratios = [0, 0.5]
drain_s = 0.3
[validity]
gap_shortfall_ratio = 0.9
[latency]
duration_s = 0.2
"""
BRIDGE = 'kind = "bridge"\ncpus = [1]'


def spanning(trial_s=0.2, traffic_s=8, dut=BRIDGE):
    """A scenario whose generator, device and receiver are on the hosts gen, dut and sink."""
    return SCENARIO.format(trial_s=trial_s, traffic_s=traffic_s, lease_s=LEASE_S, dut=dut)
