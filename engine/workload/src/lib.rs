//! What a worker does with its ports.
//!
//! | module | workload |
//! |---|---|
//! | [`streams`] | sends streams and accounts for what comes back |
//! | [`relay`] | ports joined in pairs, nothing touched |

pub mod relay;
pub mod streams;
