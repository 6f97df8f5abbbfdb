//! What a worker does with its ports.
//!
//! | module | workload |
//! |---|---|
//! | [`streams`] | sends streams and accounts for what comes back |
//! | [`connections`] | opens TCP connections and answers them, and accounts for each |

pub mod connections;
pub mod streams;
