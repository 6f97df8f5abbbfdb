"""Why the kernel dropped frames, as perf prints its tracepoint on Linux 6.18."""

import pytest

from pinchpoint.host.local import Local
from pinchpoint.model.errors import BenchError
from pinchpoint.model.hops import DropKind
from pinchpoint.observe.perf import MOUNT, DropReasons, kind_of, reasons

HEAD = "skbaddr=0xffff88810a rx_sk=(nil) protocol=2048 location="
SCRIPT = "".join(
    f"{HEAD}{place}+0x1f reason: {reason}\n"
    for place, reason in (
        ("__neigh_event_send", "NEIGH_QUEUEFULL"),
        ("__neigh_event_send", "NEIGH_QUEUEFULL"),
        ("ip_rcv_finish_core", "IP_LOCAL_SOURCE"),
        ("__neigh_event_send", "NEIGH_QUEUEFULL"),
    )
)


def test_reasons_come_by_how_many_frames_each_cost():
    first, second = reasons(SCRIPT)
    assert (first.reason, first.frames, first.share) == ("NEIGH_QUEUEFULL", 3, 0.75)
    assert (second.reason, second.frames) == ("IP_LOCAL_SOURCE", 1)
    assert reasons("") == ()


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("NEIGH_FAILED", DropKind.NEIGHBOUR),
        ("IP_RPFILTER", DropKind.SOURCE),
        ("NETFILTER_DROP", DropKind.RULE),
        ("CPU_BACKLOG", DropKind.KERNEL_QUEUE),
        ("a later kernel's", DropKind.OTHER),
    ],
)
def test_a_reason_is_in_the_words_of_causes(reason, kind):
    assert kind_of(reason) is kind


def test_a_kernel_without_reasons_is_no_answer():
    with pytest.raises(BenchError, match="no reason"):
        reasons("skbaddr=0xffff88810a protocol=2048 location=0xffffffff81\n")


class Machine(Local):
    """With perf, and with tracepoints of this format; None: there are none."""

    def __init__(self, form):
        self.form = form

    def which(self, program):
        return "/usr/bin/perf"

    def exists(self, path):
        return self.form is not None and path.endswith("skb/kfree_skb/format")

    def read(self, path):
        return self.form


@pytest.mark.parametrize(
    ("form", "words"),
    [(None, MOUNT), ("field:void * location;", "Linux 5.17"), ("field:enum skb_drop_reason reason;", "")],
)
def test_what_is_missing_is_said_with_what_mends_it(form, words):
    why = DropReasons(Machine(form), "/run/x", (0, 1), ()).can_run()
    assert words in why if words else why is None
