//! The behaviour suite, once for each inbox.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

mod memory {
    use std::future::{Ready, ready};

    use beepgrid_receiver::inbox::memory::MemoryInbox;

    fn open() -> Ready<(MemoryInbox, ())> {
        ready((MemoryInbox::new(), ()))
    }

    beepgrid_receiver::inbox_suite!(open);
}

mod sqlite {
    use beepgrid_receiver::SqliteInbox;
    use tempfile::TempDir;

    async fn open() -> (SqliteInbox, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        (SqliteInbox::open(folder.path()).await.unwrap(), folder)
    }

    beepgrid_receiver::inbox_suite!(open);
}
