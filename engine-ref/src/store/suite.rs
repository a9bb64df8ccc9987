//! What every store must do, run on each of them.
