//! The behaviour suite, once for each inbox.

mod memory {
    use beepgrid_receiver::inbox::memory::MemoryInbox;

    async fn open() -> (MemoryInbox, ()) {
        (MemoryInbox::new(), ())
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
