//! Streams without sockets, on a clock that is moved by hand: Olga owns the workspace and writes to Ana, who reads, and to Ben.

use beepgrid::{CredentialInput, EventKind, PrincipalId, PrincipalInput, PrincipalKind, RevokeInput, SendInput, Target};
use futures_util::FutureExt as _;

use super::*;
use crate::clock::Clock;
use crate::core::Settings;
use crate::service::actor::TokenDigest;
use crate::service::{identity, messages, setup};
use crate::store::{Database, Store, StoreConfig};

const TOKEN: &str = "a token that is long enough for an owner";
const PATIENCE: Duration = Duration::from_secs(30);

struct Scene {
    core: Core,
    clock: Clock,
    olga: Caller,
    ana: Caller,
    ben: PrincipalId,
}

impl Scene {
    async fn new() -> Self {
        let clock = Clock::manual("2026-12-01T08:00:00Z".parse().unwrap());
        let store = Store::open(StoreConfig::new(Database::Memory), clock.clone()).await.unwrap();
        store.write(|tx| setup::bootstrap(tx, "Olga", TOKEN)).await.unwrap();
        let settings = Settings::plain();
        let core = Core::new(store, clock.clone(), settings);
        let olga = core.caller(TokenDigest::of(TOKEN)).await.unwrap();
        let made = core.write(&olga, Need::Any, |tx, actor| {
            let person = |name: &str| identity::create(tx, actor, PrincipalKind::Person, &PrincipalInput::new(name, name));
            let (ana, ben) = (person("Ana")?, person("Ben")?);
            let issued = setup::create_credential(tx, actor, &CredentialInput::api(&ana))?;
            Ok((issued.token, ben))
        });
        let (token, ben) = made.await.unwrap();
        let ana = core.caller(TokenDigest::of(&token)).await.unwrap();
        Self { core, clock, olga, ana, ben }
    }

    async fn send(&self, to: &PrincipalId, body: &str) {
        let input = SendInput::to(Target::person(to), body);
        self.core.write(&self.olga, Need::Any, move |tx, actor| messages::send(tx, actor, &input)).await.unwrap();
    }

    async fn newest(&self) -> i64 {
        self.core.store().read(|tx| Ok(crate::store::events::kept(tx)?.newest)).await.unwrap()
    }

    /// Ana's place after everything that there is.
    async fn feed(&self) -> Feed {
        let after = self.newest().await;
        Feed::open(self.core.clone(), self.ana.clone(), Want::default(), after).await.unwrap()
    }

    async fn revoke(&self) {
        let credentials = self.core.read(&self.olga, Need::Any, setup::list).await.unwrap().0;
        let id = credentials.into_iter().find(|row| row.principal_id == self.ana.principal_id).unwrap().id.to_string();
        let revoke = (id, RevokeInput::new(false));
        self.core.write(&self.olga, Need::Any, move |tx, actor| setup::revoke(tx, actor, &revoke)).await.unwrap();
    }
}

fn kinds(feed: &Feed) -> Vec<EventKind> {
    feed.items.iter().map(|event| event.kind.clone()).collect()
}

fn written(feed: &mut Feed) -> String {
    let mut out = Vec::new();
    feed.write(&mut out);
    String::from_utf8(out).unwrap()
}

fn channel() -> (mpsc::Sender<Bytes>, mpsc::Receiver<Bytes>) {
    mpsc::channel(1)
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it happens at once")
}

#[tokio::test]
async fn what_commits_between_the_replay_and_the_wait_ends_the_wait() {
    let scene = Scene::new().await;
    scene.send(&scene.ana.principal_id, "before").await;
    let mut feed = Feed::open(scene.core.clone(), scene.ana.clone(), Want::default(), 0).await.unwrap();
    assert_eq!(kinds(&feed), [EventKind::IdentityUpdated, EventKind::ConversationCreated, EventKind::MessageCreated]);
    assert!(!feed.more);
    scene.send(&scene.ana.principal_id, "in between").await;
    let (frames, _taken) = channel();
    // The clock stands still: only the signal can do this.
    assert!(soon(feed.wait(&frames)).await);
    feed.look().await.unwrap();
    assert_eq!(kinds(&feed), [EventKind::ConversationCreated, EventKind::MessageCreated]);
    assert_eq!(feed.items[1].message().unwrap().body, "in between");
}

#[tokio::test]
async fn hidden_events_wake_nothing_and_a_cursor_follows_with_the_comment() {
    let scene = Scene::new().await;
    let mut feed = scene.feed().await;
    let before = scene.newest().await;
    let (frames, _taken) = channel();
    scene.send(&scene.ben, "not for Ana").await;
    for _ in 0..20 {
        tokio::task::yield_now().await;
        assert!(feed.wait(&frames).now_or_never().is_none());
    }
    scene.clock.advance(COMMENT_EVERY);
    assert!(soon(feed.wait(&frames)).await);
    feed.look().await.unwrap();
    let (text, newest) = (written(&mut feed), scene.newest().await);
    assert!(newest > before);
    assert_eq!(text, format!(": the stream is alive\n\nid: {newest}\nevent: cursor\ndata: {{\"sequence\": {newest}}}\n\n"));
    // Nothing more happened: the next sign of life is the comment alone, and no sooner than in ten seconds.
    feed.look().await.unwrap();
    assert_eq!(written(&mut feed), "");
    scene.clock.advance(COMMENT_EVERY);
    feed.look().await.unwrap();
    assert_eq!(written(&mut feed), ": the stream is alive\n\n");
}

#[tokio::test]
async fn an_operator_is_woken_by_everything() {
    let scene = Scene::new().await;
    let after = scene.newest().await;
    let mut feed = Feed::open(scene.core.clone(), scene.olga.clone(), Want::default(), after).await.unwrap();
    scene.send(&scene.ben, "private").await;
    let (frames, _taken) = channel();
    assert!(soon(feed.wait(&frames)).await);
    feed.look().await.unwrap();
    assert_eq!(feed.items[1].message().unwrap().body, "private");
}

#[tokio::test]
async fn a_quarter_of_an_hour_ends_it_cleanly_behind_a_cursor() {
    let scene = Scene::new().await;
    let mut feed = scene.feed().await;
    scene.send(&scene.ben, "not for Ana").await;
    let newest = scene.newest().await;
    let (frames, mut taken) = channel();
    let streaming = tokio::spawn(async move { run(&mut feed, &frames).await });
    assert_eq!(soon(taken.recv()).await.unwrap(), ":\n\n");
    scene.clock.advance(STREAM_LIFE);
    let last = soon(taken.recv()).await.unwrap();
    assert!(String::from_utf8(last.to_vec()).unwrap().ends_with(&format!("data: {{\"sequence\": {newest}}}\n\n")));
    assert_eq!(soon(taken.recv()).await, None);
    soon(streaming).await.unwrap();
}

#[tokio::test]
async fn a_reader_that_takes_nothing_costs_one_look_and_no_more() {
    let scene = Scene::new().await;
    let mut feed = scene.feed().await;
    for number in 0..200 {
        scene.send(&scene.ana.principal_id, &format!("message {number}")).await;
    }
    let (frames, mut taken) = channel();
    let streaming = tokio::spawn(async move {
        run(&mut feed, &frames).await;
        feed.position
    });
    // Nobody reads, and the time for it runs out.
    while taken.is_empty() {
        tokio::task::yield_now().await;
    }
    scene.clock.advance(STREAM_LIFE);
    let position = soon(streaming).await.unwrap();
    let newest = scene.newest().await;
    assert!(position < newest - 200, "at most two looks of {} were read: {position} of {newest}", LOOK.items);
    let mut chunks = 0;
    while soon(taken.recv()).await.is_some() {
        chunks += 1;
    }
    assert_eq!(chunks, 1);
}

#[tokio::test]
async fn a_revoked_credential_ends_it_also_while_nobody_reads() {
    for reads in [true, false] {
        let scene = Scene::new().await;
        let mut feed = scene.feed().await;
        let (frames, mut taken) = channel();
        let streaming = tokio::spawn(async move { run(&mut feed, &frames).await });
        if reads {
            soon(taken.recv()).await;
        } else {
            scene.send(&scene.ana.principal_id, "blocked behind the first").await;
        }
        scene.revoke().await;
        soon(streaming).await.unwrap();
    }
}

#[tokio::test]
async fn an_expiring_credential_ends_it_in_time() {
    let scene = Scene::new().await;
    let mut feed = scene.feed().await;
    let end = feed.token_until.unwrap();
    let (frames, mut taken) = channel();
    // Nothing else is due until then: a stream that only looked every ten seconds would be late.
    (feed.comment_at, feed.rotate_at) = (end.plus(PATIENCE), end.plus(PATIENCE));
    let streaming = tokio::spawn(async move { run(&mut feed, &frames).await });
    soon(taken.recv()).await;
    scene.clock.advance(end.since(scene.clock.now()));
    soon(streaming).await.unwrap();
}

#[tokio::test]
async fn the_engines_stop_and_a_reader_that_left_end_it() {
    for leaves in [true, false] {
        let scene = Scene::new().await;
        let mut feed = scene.feed().await;
        let (frames, mut taken) = channel();
        let streaming = tokio::spawn(async move { run(&mut feed, &frames).await });
        soon(taken.recv()).await;
        if leaves {
            drop(taken);
        } else {
            scene.core.stopping().cancel();
        }
        soon(streaming).await.unwrap();
    }
}

#[tokio::test]
async fn a_principal_holds_eight_at_once() {
    let scene = Scene::new().await;
    let open = || stream(scene.core.clone(), scene.ana.clone(), Want::default(), 0);
    let mut held = Vec::new();
    for _ in 0..MAX_STREAMS {
        held.push(open().await.unwrap());
    }
    assert!(matches!(open().await, Err(Refusal::RateLimited { .. })));
    assert!(stream(scene.core.clone(), scene.olga.clone(), Want::default(), 0).await.is_ok());
    held.pop();
    soon(async {
        while open().await.is_err() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_page_ends_behind_what_goes_beyond_its_bytes() {
    let scene = Scene::new().await;
    for _ in 0..4 {
        scene.send(&scene.ana.principal_id, &"x".repeat(30_000)).await;
    }
    let page = |position, bytes| {
        let read = move |tx: &ReadTx<'_>, actor: &Actor| {
            event_stream::page(tx, actor, &Want::default(), position, Bounds { items: 500, bytes })
        };
        scene.core.read(&scene.ana, Need::Any, read)
    };
    let first = page(0, 50_000).await.unwrap();
    assert_eq!((first.items.iter().filter(|event| event.kind == EventKind::MessageCreated).count(), first.more), (2, true));
    let rest = page(first.position, 10_000_000).await.unwrap();
    assert_eq!((rest.items.len(), rest.more, rest.position), (4, false, scene.newest().await));
}

#[tokio::test]
async fn what_may_not_be_seen_does_not_count_as_more() {
    let scene = Scene::new().await;
    scene.send(&scene.ana.principal_id, "one").await;
    let hidden = scene.newest().await;
    scene
        .core
        .store()
        .write(move |tx| {
            // As it is for a reader whose window ended: noted for her, and not to be seen.
            for number in 0..300 {
                tx.execute(
                    "INSERT INTO events (sequence, id, kind, actor_id, conversation_id, recipient_id, subject_id, data, created_at)
                     VALUES (:sequence, '', 'message.created', '', 'cnv_x', '', 'msg_x', '{}', 0)",
                    &[("sequence", &(hidden + 1 + number))],
                )?;
            }
            tx.skip_sequences(300)?;
            Ok(())
        })
        .await
        .unwrap();
    let (ana, newest) = (scene.ana.principal_id.clone(), scene.newest().await);
    scene
        .core
        .store()
        .write(move |tx| {
            (hidden + 1..=newest).try_for_each(|number| Ok(crate::store::events::index_for(tx, number, ana.as_str()).map(drop)?))
        })
        .await
        .unwrap();
    let read = move |tx: &ReadTx<'_>, actor: &Actor| {
        event_stream::page(tx, actor, &Want::default(), 0, Bounds { items: 3, bytes: usize::MAX })
    };
    let page = scene.core.read(&scene.ana, Need::Any, read).await.unwrap();
    assert_eq!((page.items.len(), page.more, page.position), (3, false, newest));
}
