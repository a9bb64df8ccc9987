//! What may be done and why: access, explanations, capabilities, previews. Snapshots: every write checks again.

use crate::model::{
    Access, CapabilityInput, CapabilityResult, ContactPreview, ContactPreviewInput, ExplainInput, Explanation, PrincipalId,
    RoleBinding, RolePreview, RolePreviewInput,
};
use crate::{Call, Client, ops};

/// Access.
impl Client {
    /// Reads which roles and which contact policy reach a subject; the caller itself when none is named.
    ///
    /// Anybody else's is for managers of identities; it is `not_found` otherwise.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// for role in client.access(None).await?.roles {
    ///     println!("{} reaches you {}", role.role.name, role.via);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn access(&self, subject: Option<&PrincipalId>) -> Call<Access> {
        Call::new(self, &ops::ACCESS, &[]).query("subject_id", subject)
    }

    /// Lists the role bindings of one principal or group.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, group: beepgrid::GroupId) -> Result<(), beepgrid::Error> {
    /// for binding in client.role_bindings(group.as_str()).await? {
    ///     println!("{} since {}", binding.role_id, binding.created_at);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn role_bindings(&self, subject_id: &str) -> Call<Vec<RoleBinding>> {
        Call::new(self, &ops::ROLE_BINDINGS, &[]).query("subject_id", Some(subject_id))
    }

    /// Says whether one action is allowed now, and which rules decide it.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, billing: beepgrid::PrincipalId) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{ExplainInput, RuleAction, Target};
    ///
    /// let why = client.explain_permission(ExplainInput::new(RuleAction::Ask, Target::agent(&billing))).await?;
    /// println!("{}: {}", why.allowed, why.reason);
    /// # Ok(())
    /// # }
    /// ```
    pub fn explain_permission(&self, input: ExplainInput) -> Call<Explanation> {
        Call::new(self, &ops::EXPLAIN_PERMISSION, &[]).json(&input)
    }

    /// Says which operations are open to the caller now: for a target, a request or a connection.
    ///
    /// What the caller may not see answers false throughout.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, request: beepgrid::RequestId) -> Result<(), beepgrid::Error> {
    /// use beepgrid::CapabilityInput;
    ///
    /// let open = client.capabilities(CapabilityInput::request(&request)).await?;
    /// if open.operations.get("respond") == Some(&true) {
    ///     println!("decide version {:?} with one of {:?}", open.request_version, open.outcomes);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn capabilities(&self, input: CapabilityInput) -> Call<CapabilityResult> {
        Call::new(self, &ops::CAPABILITIES, &[]).json(&input)
    }

    /// Shows what a contact policy would mean, and whether the caller may save it. Saves nothing.
    ///
    /// ```no_run
    /// # async fn example(owner: beepgrid::Client, builder: beepgrid::PrincipalId) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{ContactPreviewInput, PermissionRule, RuleAction, Target, TargetKind};
    ///
    /// let rules = vec![PermissionRule::allow_all(RuleAction::View, &TargetKind::Agent)];
    /// let preview = owner.preview_contact_permissions(ContactPreviewInput::new(Target::agent(&builder), 0).rules(rules)).await?;
    /// println!("can be saved: {}; {:?}", preview.can_save, preview.warnings);
    /// # Ok(())
    /// # }
    /// ```
    pub fn preview_contact_permissions(&self, input: ContactPreviewInput) -> Call<ContactPreview> {
        Call::new(self, &ops::PREVIEW_CONTACT_PERMISSIONS, &[]).json(&input)
    }

    /// Shows what a role with these rules would mean for its subjects. Saves nothing.
    ///
    /// ```no_run
    /// # async fn example(owner: beepgrid::Client, role: beepgrid::RoleId) -> Result<(), beepgrid::Error> {
    /// use beepgrid::RolePreviewInput;
    ///
    /// let preview = owner.preview_role(RolePreviewInput::new(Vec::new()).role_id(role)).await?;
    /// println!("{} permissions are left", preview.effective.len());
    /// # Ok(())
    /// # }
    /// ```
    pub fn preview_role(&self, input: RolePreviewInput) -> Call<RolePreview> {
        Call::new(self, &ops::PREVIEW_ROLE, &[]).json(&input)
    }
}
