"""`pinchpoint otg`: the traffic part of the Open Traffic Generator model (REST), served on loopback.

`shape`     strict reading of a JSON body by tables that say of every field whether it is supported
`patterns`  values of header fields, and what a pattern is to the engine
`headers`   the table of header fields; a flow's packet as the engine's layers and field programs
`fields`    the tables of a configuration and of requests
`devices`   where a device without protocols stands: port, addresses, and its gateway's MAC address, asked for by ARP
`captures`  the frames that a port received, as a file
`plan`      flows as streams of one trial
`generator` the ports that scripts may name, and the trial under way
`metrics`   what is answered about flows and ports
`app`       addresses, Host, limits, errors
"""
