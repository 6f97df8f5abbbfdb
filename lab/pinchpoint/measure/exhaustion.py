"""The resources of a balancer as what a verdict names."""

from collections.abc import Mapping
from typing import Final

from pinchpoint.model.limits import Resource
from pinchpoint.model.result import Limit

LIMITS: Final[Mapping[Resource, Limit]] = {
    Resource.LOCAL_PORTS: Limit.LOCAL_PORTS,
    Resource.TABLE: Limit.TABLE,
    Resource.MEMORY: Limit.MEMORY,
    Resource.DESCRIPTORS: Limit.DESCRIPTORS,
    Resource.WORKER: Limit.WORKER_CORE,
    Resource.SOFTIRQ: Limit.SOFTIRQ,
    Resource.ACCEPT_QUEUE: Limit.ACCEPT_QUEUE,
    Resource.BACKEND: Limit.BACKEND,
    Resource.GENERATOR: Limit.GENERATOR,
}
