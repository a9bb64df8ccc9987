//! Starters to copy into your own project; each one is a file beside this one and runs with `cargo run --example NAME`.
