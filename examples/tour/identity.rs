//! People, agents and services; contact policies and explanations.

use beepgrid::{
    Agent, ContactPermissionsInput, ContactPreviewInput, ErrorCode, ExplainInput, PermissionRule, Person, PrincipalEdit,
    PrincipalInput, RuleAction, Service, StatusInput, Target,
};

use crate::stage::{Log, Stage, check, refused, same};

pub(crate) async fn visit(log: &mut Log, stage: &Stage) -> anyhow::Result<()> {
    Log::region("Identity and permissions");
    let owner = &stage.owner;
    let subject = Target::agent(&stage.builder_id);
    let preview =
        log.call("Builder's policy now", owner.preview_contact_permissions(ContactPreviewInput::new(subject.clone(), 0)));
    let version = preview.await?.policy.version;
    let rules = vec![PermissionRule::allow(RuleAction::View, &stage.to_billing())];
    let input = ContactPreviewInput::new(subject.clone(), version).rules(rules.clone());
    let preview = log.call("what it would mean with this rule", owner.preview_contact_permissions(input)).await?;
    check("the owner can save it", preview.can_save)?;
    let input = ContactPermissionsInput::new(subject, rules, version);
    let policy = log.call("saved", owner.save_contact_permissions(input.clone())).await?;
    check("the version grew", policy.version > version)?;
    refused("the old version", owner.save_contact_permissions(input).await, &ErrorCode::VersionConflict)?;
    let input = ExplainInput::new(RuleAction::Message, stage.to_billing()).subject_id(stage.builder_id.as_str());
    let why = log.call("why Builder may write to Billing", owner.explain_permission(input)).await?;
    check("it may, and a rule says so", why.allowed && !why.sources.is_empty())?;

    people(log, stage).await?;
    agents(log, stage).await?;
    services(log, stage).await
}

async fn people(log: &mut Log, stage: &Stage) -> anyhow::Result<()> {
    let owner = &stage.owner;
    let input = PrincipalInput::new("Ana", stage.name("ana"));
    let made: Person = log.call("Ana", owner.create_person(input)).await?;
    let edited = log.call("now Ana Berg", owner.edit_person(&made.id, PrincipalEdit::new(made.version).name("Ana Berg"))).await?;
    same("the name", &edited.name.as_str(), &"Ana Berg")?;
    let stopped = log.call("stopped", owner.set_person_status(&made.id, StatusInput::new(true, edited.version))).await?;
    check("Ana is disabled", stopped.disabled)
}

async fn agents(log: &mut Log, stage: &Stage) -> anyhow::Result<()> {
    let owner = &stage.owner;
    let input = PrincipalInput::new("Nova", stage.name("nova"));
    let made: Agent = log.call("Nova", owner.create_agent(input)).await?;
    let edited = log.call("now Nova 2", owner.edit_agent(&made.id, PrincipalEdit::new(made.version).name("Nova 2"))).await?;
    same("the name", &edited.name.as_str(), &"Nova 2")?;
    let stopped = log.call("stopped", owner.set_agent_status(&made.id, StatusInput::new(true, edited.version))).await?;
    check("Nova is disabled", stopped.disabled)
}

async fn services(log: &mut Log, stage: &Stage) -> anyhow::Result<()> {
    let owner = &stage.owner;
    let input = PrincipalInput::new("Build farm", stage.name("farm"));
    let made: Service = log.call("the build farm", owner.create_service(input)).await?;
    let edited = log.call("now farm 2", owner.edit_service(&made.id, PrincipalEdit::new(made.version).name("Farm 2"))).await?;
    same("the name", &edited.name.as_str(), &"Farm 2")?;
    let stopped = log.call("stopped", owner.set_service_status(&made.id, StatusInput::new(true, edited.version))).await?;
    check("the farm is disabled", stopped.disabled)
}
