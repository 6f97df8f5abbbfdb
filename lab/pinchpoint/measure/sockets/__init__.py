"""Workloads over kernel sockets between two hosts: bandwidth, rr and crr."""
