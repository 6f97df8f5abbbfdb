"""Many flows, ports or veth pairs, made and removed by a method, with the time that each part took.

`curve`   items over seconds: its steps, and whether the time per item grows; pure
`watch`   the clock of one making: notes progress, and is where it can be stopped
`making`  what can be made, and one making timed: when the command returned, when all of it shows
`flows`   OpenFlow rules: a process each, one process reading a file, an atomic bundle
`ports`   internal ports: a process each, one ovs-vsctl, one OVSDB transaction
`ovsdb`   the database's own protocol, as far as such a transaction needs it
`veths`   veth pairs: a process each, ip -batch, one netlink socket
"""
