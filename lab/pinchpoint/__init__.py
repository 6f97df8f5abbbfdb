"""Pinchpoint: a performance lab for virtual switches and layer-4 load balancers."""

__version__ = "0.1.0"
