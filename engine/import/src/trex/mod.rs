//! TRex.
