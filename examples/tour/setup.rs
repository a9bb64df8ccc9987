//! Set-up: who is calling, two agents, and the rights that they need and no more.

use anyhow::Context as _;
use beepgrid::{Client, EnrollInput, PermissionRule, Person, RoleBindingInput, RoleInput, RuleAction, Session, Target};

use crate::stage::{Log, check, same};

/// The owner, and the sessions of Builder and Billing.
pub(crate) async fn visit(log: &mut Log, owner: &Client, run: &str) -> anyhow::Result<(Person, Session, Session)> {
    Log::region("Set-up");
    let me = log.call("the credential is an operator's", owner.me()).await?;
    check("the caller is an operator", me.operator)?;
    let me = me.person.context("the tour needs the credential of a person")?;
    let workspace = log.call("which workspace and engine this is", owner.workspace()).await?;
    same("the deployment", &workspace.deployment.as_str(), &"self_hosted")?;
    let builder = log.call("Builder 7 comes in", owner.enroll(EnrollInput::new(format!("tour/{run}/builder"), "Builder 7")));
    let builder = builder.await?;
    let billing = log.call("Billing 2 comes in", owner.enroll(EnrollInput::new(format!("tour/{run}/billing"), "Billing 2")));
    let billing = billing.await?;
    for (from, to) in [(&builder, &billing), (&billing, &builder)] {
        let contacts = [Target::person(&me.id), Target::agent(&to.agent.id)];
        let rules = contacts.iter().flat_map(|target| {
            [RuleAction::View, RuleAction::Message, RuleAction::Ask].map(|action| PermissionRule::allow(action, target))
        });
        let role = RoleInput::new(format!("tour/{run}/{}", from.agent.name), rules.collect());
        let role = log.call(format_args!("may reach the owner and {}", to.agent.name), owner.create_role(role)).await?;
        let binding = owner.bind_role(RoleBindingInput::principal(&role.id, &from.agent.id));
        log.call(format_args!("given to {}", from.agent.name), binding).await?;
    }
    Ok((me, builder, billing))
}
