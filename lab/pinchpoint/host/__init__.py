"""Where things run: the operations that the rest of the lab asks of a machine, and the machines that offer them.

`interface`  what a host is: run, read, write, list, spawn, signal, connect, its CPUs; that of the lab (`local`) does it
`guest`      a kernel of its own on this machine: `guest_line` to its `agent`; `guest_kernels` boots one,
             `guest_program` speaks with a program in it
`ssh`        another machine: the same line to its `agent`, which `ssh_boot` starts; `lease` undoes a bench there
`asked`      what hosts have in common that are asked over a line; `machines` knows those of a run
`locked`     files that are locked as long as their owner lives
`processes`  processes by the mark of their bench, on any host; what they use
`signals`    what must not be cut short by a signal
`priority`   where this process itself runs, and before whom
`confined`   a module of the lab that gives up every privilege (`confinement`) before it goes on
`many`, `netlink`, `hugepages`, `numa`, `memory_policy`, `facts`  the local kernel's means that have no general form

Nothing else in the lab starts a process, opens a socket or reads /proc and /sys; the engine's client starts the
engine (`engine/process.py`).
"""
