//! Connections, for the tests of the balancer, with the doubles of their own tests.

pub(crate) use pinchpoint_workload::connections::*;

#[allow(dead_code)] // what stands between the ends here is the balancer
#[path = "../../workload/src/connections/doubles.rs"]
pub(crate) mod doubles;
