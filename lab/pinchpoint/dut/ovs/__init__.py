"""A private Open vSwitch: own database, daemons, sockets, namespace."""
