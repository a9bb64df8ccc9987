//! The owner approves one build and denies another.

use beepgrid::{Client, ExecutionState, Outcome, QueryInput, Request, ResponseInput, Target};
use beepgrid_examples::place::{Practice, say, within};

pub(crate) async fn practise(practice: &Practice, agent: &Client) -> anyhow::Result<()> {
    let owner = &practice.owner;
    let person = Target::person(&owner.me().await?.person.ok_or_else(|| anyhow::anyhow!("the owner is a person"))?.id);
    practice.allow_ask(&person).await?;
    for (build, outcome) in [("2026-11-30.1", Outcome::Approved), ("2026-11-30.2", Outcome::Denied)] {
        let (execution, ()) = tokio::try_join!(crate::deploy(agent, &person, build), decide(owner, build, outcome.clone()))?;
        let state = execution.map(|execution| execution.state);
        let wanted = (outcome == Outcome::Approved).then_some(ExecutionState::Succeeded);
        anyhow::ensure!(state == wanted, "the execution is {state:?}, not {wanted:?}");
    }
    let again = crate::deploy(agent, &person, "2026-11-30.1").await?;
    anyhow::ensure!(
        again.is_some_and(|execution| execution.state == ExecutionState::Succeeded),
        "a repeat must find what was done"
    );
    Ok(())
}

async fn decide(owner: &Client, build: &str, outcome: Outcome) -> anyhow::Result<()> {
    let request = within("the request", async {
        loop {
            let open = owner.query_as::<Request>(QueryInput::new("requests").filter("state", "open")).await?;
            if let Some(request) = open.items.into_iter().find(|request| request.body.contains(build)) {
                return anyhow::Ok(request);
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    })
    .await??;
    say("owner", format_args!("decides {:?}: {outcome}", request.body));
    owner.respond(&request.id, ResponseInput::new(outcome, request.version)).await?;
    Ok(())
}
