"""Many items of one kind, made and removed by a method, with the time that each part took.

`making`  what can be made, and one making timed: when the command returned, when all of it shows; the clock of one
          making, which notes progress and is where it can be stopped; veth pairs, made by a process each, by ip -batch
          or by one netlink socket
"""
