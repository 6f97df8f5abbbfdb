//! Devices whose truth is known, and tools that say what arrives or join ports: workloads that
//! measure nothing themselves.
//!
//! | module | workload |
//! |---|---|
//! | [`balancer`] | a load balancer whose limits, time-outs and faults are known |
//! | [`reference`] | a forwarder whose rate, ring, losses and pauses are known |
//! | [`relay`] | ports joined in pairs, nothing touched |
//! | [`reflector`] | sends frames back with source and destination swapped |
//! | [`inspector`] | says what arrives: rate, bursts, sizes, flows, checksums |

pub mod balancer;
pub mod inspector;
pub mod reference;
pub mod reflector;
pub mod relay;

#[cfg(test)]
mod connections;
