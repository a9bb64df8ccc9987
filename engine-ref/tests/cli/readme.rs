//! The commands of the README work as they stand there.

use std::path::Path;
use std::process::Stdio;

use tokio::process::Command;

use crate::support::World;

/// The first block of shell commands under a heading.
fn block(heading: &str) -> String {
    let readme = include_str!("../../../README.md");
    let section = readme.split(heading).nth(1).expect("the heading");
    section.split("```sh\n").nth(1).expect("a block").split("```").next().expect("its end").to_owned()
}

#[tokio::test]
async fn the_commands_of_the_readme_work() {
    let world = World::start().await;
    std::fs::create_dir(world.path(".local")).expect("a folder");
    let owner = world.secret(".local/owner-token", world.engine.owner_token());
    let commands = block("\n## Command line\n");
    // It goes on until it is stopped.
    let (endless, commands): (Vec<&str>, Vec<&str>) = commands.lines().partition(|line| line.starts_with("beepgrid events"));
    assert_eq!(endless.len(), 1);
    let program = Path::new(env!("CARGO_BIN_EXE_beepgrid")).parent().expect("a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.arg("-ec").arg(commands.join("\n")).current_dir(world.path(".")).stdin(Stdio::null());
    shell
        .env("PATH", path)
        .env("BEEPGRID_URL", world.engine.url())
        .env("BEEPGRID_TOKEN_FILE", owner)
        .env_remove("BEEPGRID_TOKEN");
    let output = shell.output().await.expect("it runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 6, "a document for each");
    assert!(world.path(".local/builder-token").exists());
}
