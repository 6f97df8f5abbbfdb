"""The capture that a shipped scenario replays is the one that its script makes."""

from reference import capture


def test_the_shipped_capture_is_what_the_script_makes() -> None:
    assert capture.FILE.read_bytes() == capture.capture()
