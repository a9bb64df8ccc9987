//! Groups, and roles that reach their members.

use anyhow::Context as _;
use beepgrid::{
    GroupEdit, GroupInput, GroupPurpose, PermissionRule, RoleBindingInput, RoleEdit, RoleInput, RolePreviewInput, RuleAction,
    Target,
};

use crate::stage::{Log, Stage, check, same};

pub(crate) async fn visit(log: &mut Log, stage: &Stage) -> anyhow::Result<()> {
    Log::region("Groups and roles");
    let owner = &stage.owner;
    let input = GroupInput::new(stage.name("night shift"), GroupPurpose::AgentRole, vec![stage.builder_id.clone()]);
    let group = log.call("Builder alone", owner.create_group(input)).await?;
    let members = vec![stage.builder_id.clone(), stage.billing_id.clone()];
    let edited = log.call("Billing joins", owner.edit_group(&group.id, GroupEdit::new(group.version).members(members))).await?;
    same("the number of members", &edited.member_count, &2)?;

    let view = PermissionRule::allow(RuleAction::View, &Target::group(&group.id));
    let input = RolePreviewInput::new(vec![view.clone()]).subjects(vec![Target::agent(&stage.builder_id)]);
    let preview = log.call("what a role would mean for Builder", owner.preview_role(input)).await?;
    check("something for somebody", !preview.effective.is_empty())?;
    let role = log.call("the role", owner.create_role(RoleInput::new(stage.name("sees the shift"), vec![view]))).await?;
    let edit = RoleEdit::new(role.version).name(stage.name("sees the night shift"));
    let renamed = log.call("under another name", owner.edit_role(&role.id, edit)).await?;
    check("the version grew", renamed.version > role.version)?;
    let binding = log.call("given to the group", owner.bind_role(RoleBindingInput::group(&role.id, &group.id))).await?;
    let bindings = log.call("the group's roles", owner.role_bindings(group.id.as_str())).await?;
    same("the binding", &bindings.first().context("the group has no role")?.id, &binding.id)?;
    let access = log.call("Builder has it through the group", stage.builder.access(None)).await?;
    check("via the group", access.roles.iter().any(|one| one.role.id == role.id && one.via == group.id.as_str()))?;
    log.call("taken away", owner.unbind_role(&binding.id)).await?;
    log.call("the role is gone", owner.delete_role(&role.id)).await?;
    log.call("the group is gone", owner.delete_group(&group.id)).await?;
    let access = log.call("Builder has it no more", stage.builder.access(None)).await?;
    check("it is gone", access.roles.iter().all(|one| one.role.id != role.id))
}
