//! What a worker does with its ports.
//!
//! | module | workload |
//! |---|---|
//! | [`streams`] | sends streams and accounts for what comes back |
//! | [`relay`] | ports joined in pairs, nothing touched |
//! | [`reflector`] | sends frames back with source and destination swapped |
//! | [`reference`] | a forwarder whose rate, ring, losses and pauses are known |
//! | [`watched`] | what the last three report of their loop and their ports |

pub mod reference;
pub mod reflector;
pub mod relay;
pub mod streams;
pub mod watched;
