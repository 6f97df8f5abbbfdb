//! What a worker does with its ports.
//!
//! | module | workload |
//! |---|---|
//! | [`streams`] | sends streams and accounts for what comes back |
//! | [`relay`] | ports joined in pairs, nothing touched |
//! | [`connections`] | opens TCP connections and answers them, and accounts for each |
//! | [`inspector`] | says what arrives: rate, bursts, sizes, flows, checksums |
//! | [`reflector`] | sends frames back with source and destination swapped |
//! | [`reference`] | a forwarder whose rate, ring, losses and pauses are known |
//! | [`balancer`] | a load balancer whose limits, time-outs and faults are known |
//! | [`watched`] | what all but the first report of their loop and their ports |

pub mod balancer;
pub mod connections;
pub mod inspector;
pub mod reference;
pub mod reflector;
pub mod relay;
pub mod streams;
pub mod watched;
