"""Points of a loss curve: what they are made of, warnings that tell."""

from dataclasses import replace

from pinchpoint.measure.loss_curve.run import point, unknown, warnings


def known(share, forwarded):
    base = unknown(share, share * 4e6, share * 4e6, "")
    return replace(base, loss=0.1, loss_low=0.1, loss_high=0.1, trials=6, forwarded_fps=forwarded,
                   forwarded_low=forwarded, forwarded_high=forwarded)  # fmt: skip


def test_a_dut_that_forwards_less_under_more_load_is_told():
    (warning,) = warnings([known(1.0, 1.5e6), known(0.9, 2.0e6)])
    assert str(warning) == "forwarding falls under overload: 1.50 Mpps at 100 % load, 2.00 Mpps at 90 % load"
    assert list(warnings([known(1.0, 1.99e6), known(0.9, 2.0e6)])) == []


def test_a_load_without_a_valid_trial_keeps_its_reason():
    estimated = point(0.5, 1e6, [], "0 of 6 trials valid; last: noise")
    assert (estimated.loss, estimated.trials, estimated.lossless, estimated.generator_limited) == (
        None,
        0,
        False,
        False,
    )
    assert list(map(str, warnings([estimated]))) == ["50 % load (1.00 Mpps): 0 of 6 trials valid; last: noise"]
