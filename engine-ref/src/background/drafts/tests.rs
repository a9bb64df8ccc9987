//! The sweep on a clock that is moved by hand, with bytes in the database and in a folder.

use beepgrid::{Attachment, AttachmentId, ConversationId, PrincipalKind, SendInput, Target};

use super::*;
use crate::clock::Clock;
use crate::core::Settings;
use crate::service::actor::{Caller, Need, TokenDigest};
use crate::service::uploads::{self, Received};
use crate::service::{messages, setup};
use crate::store::principals::{self, PrincipalRow};
use crate::store::{Attachments, Database, Store, StoreConfig};

const TOKEN: &str = "a token that is long enough for an owner";
const ALMOST_A_DAY: Duration = Duration::from_secs(24 * 60 * 60 - 1);

struct Place {
    core: Core,
    clock: Clock,
    folder: tempfile::TempDir,
    #[expect(dead_code, reason = "holds the schema until the test is over")]
    keep: Box<dyn Send + Sync>,
}

fn ben() -> PrincipalRow {
    PrincipalRow {
        id: "per_ben".into(),
        kind: PrincipalKind::Person,
        name: "Ben".to_owned(),
        external_id: "ben".to_owned(),
        metadata: serde_json::Map::new(),
        version: 1,
        disabled: false,
        operator: false,
        parent_id: None,
        enrolled_by: None,
        created_at: Timestamp::from_micros(0),
    }
}

impl Place {
    async fn open(in_folder: bool) -> Self {
        Self::on(Database::Memory, in_folder, Box::new(())).await
    }

    #[cfg(feature = "postgres")]
    async fn postgres() -> Option<Self> {
        let database = tokio::task::spawn_blocking(crate::testing::postgres::database_or_skip).await.unwrap()?;
        let (url, schema) = (database.url().to_owned(), database.schema().to_owned());
        Some(Self::on(Database::Postgres { url, schema }, false, Box::new(database)).await)
    }

    async fn on(database: Database, in_folder: bool, keep: Box<dyn Send + Sync>) -> Self {
        let clock = Clock::manual("2026-12-01T08:00:00Z".parse().unwrap());
        let folder = tempfile::tempdir().unwrap();
        let attachments = in_folder.then(|| Attachments::Folder(folder.path().join("files")));
        let config = StoreConfig { attachments, ..StoreConfig::new(database) };
        let store = Store::open(config, clock.clone()).await.unwrap();
        store.write(|tx| setup::bootstrap(tx, "Olga", TOKEN)).await.unwrap();
        store.write(|tx| Ok(principals::insert(tx, &ben())?)).await.unwrap();
        let settings = Settings::plain();
        Self { core: Core::new(store, clock.clone(), settings), clock, folder, keep }
    }

    async fn caller(&self) -> Caller {
        self.core.caller(TokenDigest::of(TOKEN)).await.unwrap()
    }

    async fn stage(&self, bytes: &'static str) -> Attachment {
        let file = Received { file_name: "a.txt".into(), media_type: "text/plain".into(), bytes: bytes.into() };
        uploads::store(&self.core, &self.caller().await, None, file).await.unwrap()
    }

    async fn send(&self, draft: &AttachmentId) -> Result<ConversationId, Refusal> {
        let draft = draft.clone();
        let sending = move |tx: &crate::store::WriteTx<'_>, actor: &crate::service::actor::Actor| {
            let input = SendInput::to(Target::person("per_ben"), "").attachment_ids(vec![draft]);
            messages::result(tx, actor, &messages::send(tx, actor, &input)?)
        };
        Ok(self.core.write(&self.caller().await, Need::Any, sending).await?.conversation_id)
    }

    async fn load(&self, id: &AttachmentId) -> Option<bytes::Bytes> {
        match uploads::load(&self.core, &self.caller().await, id.clone()).await {
            Ok((_, bytes)) => Some(bytes),
            Err(Refusal::NotFound { .. }) => None,
            Err(other) => panic!("{other:?}"),
        }
    }

    /// Rows of attachments, rows of bytes, and files.
    async fn left(&self) -> (i64, i64, usize) {
        let count = |tx: &crate::store::ReadTx<'_>| {
            let row = tx.get("SELECT CAST((SELECT count(*) FROM attachments) AS BIGINT) AS a, CAST((SELECT count(*) FROM blobs) AS BIGINT) AS b", &[])?;
            Ok((row.int("a")?, row.int("b")?))
        };
        let (attachments, blobs) = self.core.store().read(count).await.unwrap();
        let files = std::fs::read_dir(self.folder.path().join("files")).map_or(0, Iterator::count);
        (attachments, blobs, files)
    }
}

async fn only_what_was_claimed_stays(place: Place) {
    let (left, claimed) = (place.stage("left").await, place.stage("claimed").await);
    let in_folder = place.left().await.2 > 0;
    place.send(&claimed.id).await.unwrap();
    place.clock.advance(ALMOST_A_DAY);
    sweep(&place.core).await.unwrap();
    assert_eq!(place.load(&left.id).await.unwrap(), "left");
    place.clock.advance(Duration::from_secs(1));
    assert_eq!(place.load(&left.id).await, None, "gone in time, swept or not");
    assert!(matches!(place.send(&left.id).await, Err(Refusal::NotFound { .. })));
    sweep(&place.core).await.unwrap();
    assert_eq!(place.load(&claimed.id).await.unwrap(), "claimed");
    assert_eq!(place.left().await, (1, 1, usize::from(in_folder)));
}

#[tokio::test]
async fn an_unclaimed_draft_goes_with_its_bytes_and_a_claimed_one_stays() {
    for in_folder in [false, true] {
        only_what_was_claimed_stays(Place::open(in_folder).await).await;
    }
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn an_unclaimed_draft_goes_from_postgres_too() {
    if let Some(place) = Place::postgres().await {
        only_what_was_claimed_stays(place).await;
    }
}

#[tokio::test]
async fn what_a_broken_upload_left_goes_after_an_hour() {
    let place = Place::open(true).await;
    let folder = place.core.store().blobs().folder().unwrap().clone();
    place.core.store().write(|tx| Ok(blobs::insert(tx, "blb_1", None)?)).await.unwrap();
    folder.write("blb_1", b"abc").unwrap();
    sweep(&place.core).await.unwrap();
    assert_eq!(place.left().await, (0, 1, 1), "it may still be on its way");
    place.clock.advance(SETTLED);
    sweep(&place.core).await.unwrap();
    assert_eq!(place.left().await, (0, 0, 0));
}

#[tokio::test]
async fn damaged_bytes_are_not_given_out() {
    let place = Place::open(true).await;
    let draft = place.stage("abc").await;
    let path = std::fs::read_dir(place.folder.path().join("files")).unwrap().next().unwrap().unwrap().path();
    for damage in ["abd", "ab", ""] {
        std::fs::write(&path, damage).unwrap();
        let loaded = uploads::load(&place.core, &place.caller().await, draft.id.clone()).await;
        assert!(matches!(loaded, Err(Refusal::Internal { .. })), "{damage:?}");
    }
    std::fs::remove_file(&path).unwrap();
    assert_eq!(place.load(&draft.id).await, None);
}

#[tokio::test]
async fn the_sweeper_runs_with_the_engine_and_ends_with_it() {
    let place = Place::open(true).await;
    place.stage("left").await;
    let sweeper = tokio::spawn(run(place.core.clone()));
    place.clock.advance(ALMOST_A_DAY + Duration::from_secs(1));
    let swept = async {
        while place.left().await != (0, 0, 0) {
            place.clock.advance(PERIOD);
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), swept).await.expect("the draft is swept");
    place.core.stopping().cancel();
    tokio::time::timeout(Duration::from_secs(30), sweeper).await.expect("the sweeper ends with the engine").unwrap();
}
