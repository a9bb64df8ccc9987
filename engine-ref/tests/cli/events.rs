//! events: JSON lines, a position that survives, a clean end (field report B44).

use std::fs;

use beepgrid::{Client, SendInput, Target};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::support::{PATIENCE, World, ended, finished, mode, scripted, signal, until};

struct Following {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Following {
    fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        Self { child, lines }
    }

    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(PATIENCE, self.lines.next_line()).await.expect("an event").expect("a line");
        serde_json::from_str(&line.expect("it goes on")).expect("JSON")
    }

    /// The next event that is a message, by its body.
    async fn body(&mut self) -> String {
        loop {
            let event = self.next().await;
            if event["kind"] == "message.created" {
                return event["data"]["body"].as_str().expect("a body").to_owned();
            }
        }
    }

    async fn stop(self, name: &str) -> (i32, String) {
        signal(&self.child, name).await;
        let ran = ended(self.child).await;
        (ran.exit, ran.stderr)
    }
}

async fn say(from: &Client, world: &World, body: &str) {
    from.send(SendInput::to(Target::agent(&world.billing_id), body)).await.expect("sent");
}

#[tokio::test]
async fn events_go_on_where_the_checkpoint_says() {
    let world = World::start().await;
    say(&world.builder, &world, "one").await;
    let arguments = ["events", "--checkpoint", "position"];
    let mut following = Following::start(world.command("builder", &arguments));
    assert_eq!(following.body().await, "one");
    say(&world.builder, &world, "two").await;
    assert_eq!(following.body().await, "two");
    assert_eq!(following.stop("-TERM").await, (0, String::new()));
    assert_eq!(mode(&world.path("position")), 0o600);
    let position: i64 = fs::read_to_string(world.path("position")).expect("there").trim().parse().expect("a number");
    say(&world.builder, &world, "three").await;
    let mut following = Following::start(world.command("builder", &arguments));
    assert_eq!(following.body().await, "three");
    assert_eq!(following.stop("-INT").await, (0, String::new()));
    let after = position.to_string();
    let mut following = Following::start(world.command("builder", &["events", "--summary", "--after", &after]));
    assert!(following.next().await["sequence"].as_i64().is_some_and(|sequence| sequence > position));
    following.stop("-INT").await;
}

#[tokio::test]
async fn a_position_is_written_for_every_line_that_was_printed() {
    let world = World::start().await;
    let mut following = Following::start(world.command("owner", &["events", "--checkpoint", "position"]));
    let mut last = 0;
    for index in 0..3 {
        say(&world.builder, &world, &format!("{index}")).await;
        loop {
            let event = following.next().await;
            last = event["sequence"].as_i64().expect("a sequence");
            if event["kind"] == "message.created" {
                break;
            }
        }
    }
    let read = || fs::read_to_string(world.path("position")).unwrap_or_default();
    until("the position", async || read().trim().parse::<i64>().is_ok_and(|position| position >= last)).await;
    // Killed, it keeps what it wrote.
    following.child.kill().await.expect("killed");
    assert!(read().trim().parse::<i64>().expect("a position") >= last);
}

#[tokio::test]
async fn nobody_reading_is_a_quiet_end() {
    let world = World::start().await;
    let mut following = Following::start(world.command("owner", &["events"]));
    following.next().await;
    let Following { child, lines } = following;
    drop(lines);
    say(&world.builder, &world, "nobody reads this").await;
    let ran = ended(child).await;
    assert_eq!((ran.exit, ran.stderr.as_str()), (0, ""));
}

#[tokio::test]
async fn refusals_end_the_stream_with_their_code_and_position() {
    let world = World::start().await;
    world.run("builder", &["events", "--after", "999999999"]).await.fails(2, "invalid_cursor");
    world.run("builder", &["events", "--conversation", "cnv_none"]).await.fails(1, "not_found");
    world.run("builder", &["events", "--after", "-1"]).await.fails(2, "usage");
    fs::write(world.path("notes"), "my notes").expect("written");
    world.run("builder", &["events", "--checkpoint", "notes"]).await.fails(2, "checkpoint");
    world.run("builder", &["events", "--checkpoint", "no/such/folder"]).await.fails(2, "checkpoint");
    assert_eq!(fs::read(world.path("notes")).expect("there"), b"my notes");
}

#[tokio::test]
async fn large_sequences_keep_their_digits() {
    let world = World::start().await;
    let frame = |sequence: i64| {
        format!(
            "id: {sequence}\ndata: {{\"sequence\":{sequence},\"kind\":\"message.created\",\"data\":{{\"n\":{sequence}}}}}\n\n"
        )
    };
    let sequences = [9_007_199_254_740_991, 9_007_199_254_740_992, 9_007_199_254_740_993, i64::MAX];
    let body: String = sequences.iter().map(|sequence| frame(*sequence)).collect();
    let answer = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n{body}");
    let mut command = world.command("builder", &["events", "--checkpoint", "position"]);
    command.env("BEEPGRID_URL", scripted(Some(answer)).await);
    let mut following = Following::start(command);
    for sequence in sequences {
        let event = following.next().await;
        assert_eq!((event["sequence"].as_i64(), event["data"]["n"].as_i64()), (Some(sequence), Some(sequence)));
    }
    following.stop("-INT").await;
    assert_eq!(fs::read_to_string(world.path("position")).expect("there"), format!("{}\n", i64::MAX));
    let page = format!("{{\"items\":[{{\"sequence\":{}}}],\"next_after\":{}}}", i64::MAX, sequences[2]);
    let mut command = world.command("builder", &["api", "GET", "/api/v1/events"]);
    command.env("BEEPGRID_URL", scripted(Some(crate::support::answered(&page))).await);
    assert_eq!(finished(command, "").await.stdout.trim(), page);
}
