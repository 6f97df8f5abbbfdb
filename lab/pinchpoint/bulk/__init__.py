"""Many items of one kind, made and removed by a method, with the time that each part took.

`curve`   items over seconds: its steps, and whether the time per item grows; pure
`watch`   the clock of one making: notes progress, and is where it can be stopped
`making`  what can be made, and one making timed: when the command returned, when all of it shows
`veths`   veth pairs: a process each, ip -batch, one netlink socket
"""
