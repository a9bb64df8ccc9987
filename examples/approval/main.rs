//! An agent that asks a person before it acts: an approval bound to exactly one action, redeemed once, reported back.
//!
//! `cargo run --example approval` practises at an engine of its own, where the owner approves. With `BEEPGRID_URL`, `BEEPGRID_TOKEN_FILE` and
//! the person's id or external id as its argument it asks that person at that engine, and waits.

mod practice;

use anyhow::Context as _;
use beepgrid::{
    Action, AskInput, Client, ErrorCode, Execution, ExecutionState, JsonMap, Key, Outcome, RedeemInput, ReportInput, RequestKind,
    Target,
};
use beepgrid_examples::place::{Place, say};
use serde_json::{Value, json};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let place = Place::find("approval").await?;
    match (&place.practice, std::env::args().nth(1)) {
        (Some(practice), _) => practice::practise(practice, &place.agent).await?,
        (None, Some(person)) => drop(deploy(&place.agent, &Target::person(person), "2026-11-30.1").await?),
        (None, None) => anyhow::bail!("name the person to ask: cargo run --example approval -- PERSON"),
    }
    if let Some(practice) = place.practice {
        practice.end().await;
    }
    Ok(())
}

/// Deploys a build if the person approves exactly that; `None` when they do not.
async fn deploy(agent: &Client, person: &Target, build: &str) -> anyhow::Result<Option<Execution>> {
    let me = agent.me().await?.id().context("the engine does not say who this is")?.clone();
    // Everything that matters is part of the action: another build, resource or argument needs another approval.
    let mut arguments = JsonMap::new();
    arguments.insert("build".to_owned(), json!(build));
    let action = Action::new("deploy", &me, "shop", format!("deploy/{build}")).resource_version(build).arguments(arguments);
    let ask = AskInput::to(person.clone(), format!("Deploy build {build} to the shop?"));
    // The key makes a program that was killed here and started again ask once.
    let key: Key = format!("approval/deploy/{build}").parse()?;
    let request = agent.ask(ask.kind(RequestKind::Approval).action(action.clone())).key(key).await?;
    say("agent", format_args!("asks: {} ({})", request.body, request.id));
    let decided = agent.wait(&request.id).await?;
    match decided.response.map(|response| response.outcome) {
        Some(Outcome::Approved) => {}
        other => {
            say(
                "agent",
                format_args!("does nothing: {}", other.map_or_else(|| decided.state.to_string(), |outcome| outcome.to_string())),
            );
            return Ok(None);
        }
    }
    // The engine compares field by field, and hands out one execution, however often this is repeated.
    let execution = match agent.redeem(&request.id, RedeemInput::new(action)).await {
        Ok(execution) => execution,
        Err(error) if error.code() == Some(&ErrorCode::NotApproved) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    if matches!(execution.state, ExecutionState::Succeeded | ExecutionState::Failed) {
        say("agent", "did it before");
        return Ok(Some(execution));
    }
    agent.report_execution(&execution.id, ReportInput::new(ExecutionState::Running)).await?;
    let report = match carry_out(build).await {
        Ok(result) => ReportInput::new(ExecutionState::Succeeded).result(result),
        Err(error) => ReportInput::new(ExecutionState::Failed).result(json!({ "error": error.to_string() })),
    };
    let done = agent.report_execution(&execution.id, report).await?;
    say("agent", format_args!("reports: {}", done.state));
    Ok(Some(done))
}

/// Your deployment goes here. If you can't tell whether it worked, report [`ExecutionState::Unknown`] and look before you try again.
async fn carry_out(build: &str) -> anyhow::Result<Value> {
    say("agent", format_args!("deploys {build}"));
    tokio::task::yield_now().await;
    Ok(json!({ "build": build }))
}
