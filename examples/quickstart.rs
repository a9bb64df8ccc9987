//! The main job, end to end.
fn main() {}
