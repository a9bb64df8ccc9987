//! The harness: engines on every store, a cutting proxy, raw HTTP.
