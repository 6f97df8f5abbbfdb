"""What of a ruleset stays while nobody interferes."""

from pinchpoint.dut.nft import without_filled

RULESET = """table ip own {
\tset seen {
\t\ttype ipv4_addr
\t\tsize 65535
\t\tflags dynamic,timeout
\t\ttimeout 1m%s
\t}
\tset allowed {
\t\ttype ipv4_addr
\t\tflags interval
\t\telements = { %s }
\t}
\tchain forward {
\t\tip saddr @allowed add @seen { ip saddr }
\t}
}"""
FILLED = "\n\t\telements = { 10.0.0.1 expires 59s,\n\t\t\t     10.0.0.2 expires 3s }"


def test_elements_that_rules_add_are_no_change() -> None:
    assert without_filled(RULESET % (FILLED, "10.0.0.1")) == RULESET % ("", "10.0.0.1")


def test_elements_of_a_set_that_no_rule_fills_are_of_the_rules() -> None:
    one, other = (without_filled(RULESET % ("", address)) for address in ("10.0.0.1", "10.0.0.2"))
    assert one != other
