//! People, agents and services; groups, roles and contact rules. For operators and whom they gave `manage` rules.

use super::limits;
use crate::call::Call;
use crate::client::Client;
use crate::error::InvalidInput;
use crate::model::{
    Agent, ContactPermissions, ContactPermissionsInput, Group, GroupEdit, GroupId, GroupInput, MAX_POLICY_RULES, MAX_ROLE_RULES,
    Person, PrincipalEdit, PrincipalId, PrincipalInput, Role, RoleBinding, RoleBindingId, RoleBindingInput, RoleEdit, RoleId,
    RoleInput, Service, StatusInput,
};
use crate::ops;

fn principal(input: &PrincipalInput) -> Result<(), InvalidInput> {
    limits::name(&input.name)?;
    limits::external_id("external_id", &input.external_id)?;
    limits::metadata("metadata", &input.metadata)
}

fn edit(input: &PrincipalEdit) -> Result<(), InvalidInput> {
    input.name.as_deref().map_or(Ok(()), limits::name)?;
    input.metadata.as_ref().map_or(Ok(()), |metadata| limits::metadata("metadata", metadata))
}

/// Writes the three operations of one kind of principal.
macro_rules! principals {
    ($($kind:ident, $word:literal, $article:literal: $create:ident $create_row:ident, $edit:ident $edit_row:ident, $status:ident $status_row:ident;)+) => {
        /// People, agents and services.
        impl Client {$(
            #[doc = concat!("Makes ", $article, " ", $word, " with your identifier for it.")]
            ///
            /// It may do nothing until rules allow it.
            ///
            /// # Errors
            /// `already_exists` if the external id is taken.
            ///
            /// # Examples
            /// ```no_run
            /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
            /// use beepgrid::PrincipalInput;
            ///
            #[doc = concat!("let made = client.", stringify!($create), "(PrincipalInput::new(\"Nova\", \"team/nova\")).await?;")]
            /// println!("{}", made.id);
            /// # Ok(())
            /// # }
            /// ```
            pub fn $create(&self, input: PrincipalInput) -> Call<$kind> {
                Call::new(self, &ops::$create_row, &[]).checked(principal(&input)).json(&input)
            }

            #[doc = concat!("Changes the name or metadata of ", $article, " ", $word, "; what is absent stays.")]
            ///
            /// # Errors
            /// `version_conflict` if it changed since it was read.
            ///
            /// # Examples
            /// ```no_run
            #[doc = concat!("# async fn example(client: beepgrid::Client, it: beepgrid::", stringify!($kind), ") -> Result<(), beepgrid::Error> {")]
            /// use beepgrid::PrincipalEdit;
            ///
            #[doc = concat!("client.", stringify!($edit), "(&it.id, PrincipalEdit::new(it.version).name(\"Nova 2\")).await?;")]
            /// # Ok(())
            /// # }
            /// ```
            pub fn $edit(&self, id: &PrincipalId, input: PrincipalEdit) -> Call<$kind> {
                Call::new(self, &ops::$edit_row, &[id.as_str()]).checked(edit(&input)).json(&input)
            }

            #[doc = concat!("Stops or restores all access of ", $article, " ", $word, ", within one second. Its history stays.")]
            ///
            /// # Errors
            /// `version_conflict` if it changed since it was read, `last_operator` for the last one.
            ///
            /// # Examples
            /// ```no_run
            #[doc = concat!("# async fn example(client: beepgrid::Client, it: beepgrid::", stringify!($kind), ") -> Result<(), beepgrid::Error> {")]
            /// use beepgrid::StatusInput;
            ///
            #[doc = concat!("client.", stringify!($status), "(&it.id, StatusInput::new(true, it.version)).await?;")]
            /// # Ok(())
            /// # }
            /// ```
            pub fn $status(&self, id: &PrincipalId, input: StatusInput) -> Call<$kind> {
                Call::new(self, &ops::$status_row, &[id.as_str()]).json(&input)
            }
        )+}
    };
}

principals! {
    Person, "person", "a": create_person CREATE_PERSON, edit_person EDIT_PERSON, set_person_status SET_PERSON_STATUS;
    Agent, "agent", "an": create_agent CREATE_AGENT, edit_agent EDIT_AGENT, set_agent_status SET_AGENT_STATUS;
    Service, "service", "a": create_service CREATE_SERVICE, edit_service EDIT_SERVICE, set_service_status SET_SERVICE_STATUS;
}

/// Groups.
impl Client {
    /// Makes a directory group.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, members: Vec<beepgrid::PrincipalId>) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{GroupInput, GroupPurpose};
    ///
    /// let group = client.create_group(GroupInput::new("Builders", GroupPurpose::AgentRole, members)).await?;
    /// println!("{}", group.id);
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_group(&self, input: GroupInput) -> Call<Group> {
        Call::new(self, &ops::CREATE_GROUP, &[]).checked(limits::name(&input.name)).json(&input)
    }

    /// Changes a group's name or members; what is absent stays.
    ///
    /// # Errors
    /// `version_conflict` if it changed since it was read.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, group: beepgrid::Group) -> Result<(), beepgrid::Error> {
    /// use beepgrid::GroupEdit;
    ///
    /// client.edit_group(&group.id, GroupEdit::new(group.version).name("Night builders")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn edit_group(&self, id: &GroupId, input: GroupEdit) -> Call<Group> {
        let checked = input.name.as_deref().map_or(Ok(()), limits::name);
        Call::new(self, &ops::EDIT_GROUP, &[id.as_str()]).checked(checked).json(&input)
    }

    /// Deletes a group. Rules and bindings that name it reach nobody from then on.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, group: beepgrid::GroupId) -> Result<(), beepgrid::Error> {
    /// client.delete_group(&group).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_group(&self, id: &GroupId) -> Call<()> {
        Call::confirmed(self, &ops::DELETE_GROUP, &[id.as_str()])
    }
}

/// Roles and contact rules.
impl Client {
    /// Makes a named set of rules, which reaches nobody until it is bound.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{PermissionRule, RoleInput, RuleAction, Target};
    ///
    /// let billing = Target::agent("billing-2");
    /// let rules = vec![PermissionRule::allow(RuleAction::Message, &billing), PermissionRule::allow(RuleAction::Ask, &billing)];
    /// let role = client.create_role(RoleInput::new("May reach billing", rules)).await?;
    /// println!("{}", role.id);
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_role(&self, input: RoleInput) -> Call<Role> {
        let checked = limits::name(&input.name).and_then(|()| limits::rules(input.rules.len(), MAX_ROLE_RULES));
        Call::new(self, &ops::CREATE_ROLE, &[]).checked(checked).json(&input)
    }

    /// Changes a role's name or rules; what is absent stays. Takes effect everywhere at once.
    ///
    /// # Errors
    /// `version_conflict` if it changed since it was read.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, role: beepgrid::Role) -> Result<(), beepgrid::Error> {
    /// use beepgrid::RoleEdit;
    ///
    /// client.edit_role(&role.id, RoleEdit::new(role.version).rules(vec![])).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn edit_role(&self, id: &RoleId, input: RoleEdit) -> Call<Role> {
        let named = input.name.as_deref().map_or(Ok(()), limits::name);
        let checked = named.and_then(|()| limits::rules(input.rules.as_ref().map_or(0, Vec::len), MAX_ROLE_RULES));
        Call::new(self, &ops::EDIT_ROLE, &[id.as_str()]).checked(checked).json(&input)
    }

    /// Deletes a role with its bindings.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, role: beepgrid::RoleId) -> Result<(), beepgrid::Error> {
    /// client.delete_role(&role).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn delete_role(&self, id: &RoleId) -> Call<()> {
        Call::confirmed(self, &ops::DELETE_ROLE, &[id.as_str()])
    }

    /// Gives a role to a principal, or to a group's present members.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, role: beepgrid::RoleId, agent: beepgrid::PrincipalId) -> Result<(), beepgrid::Error> {
    /// use beepgrid::RoleBindingInput;
    ///
    /// client.bind_role(RoleBindingInput::principal(&role, &agent)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn bind_role(&self, input: RoleBindingInput) -> Call<RoleBinding> {
        Call::new(self, &ops::BIND_ROLE, &[]).json(&input)
    }

    /// Takes a role away again.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, binding: beepgrid::RoleBinding) -> Result<(), beepgrid::Error> {
    /// client.unbind_role(&binding.id).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn unbind_role(&self, id: &RoleBindingId) -> Call<()> {
        Call::confirmed(self, &ops::UNBIND_ROLE, &[id.as_str()])
    }

    /// Replaces a subject's contact policy whole.
    ///
    /// # Errors
    /// `version_conflict` if it changed since it was read; a policy that was never saved has version 0.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::{ContactPermissionsInput, PermissionRule, RuleAction, Target};
    ///
    /// let rules = vec![PermissionRule::allow(RuleAction::Message, &Target::agent("billing-2"))];
    /// let saved = client.save_contact_permissions(ContactPermissionsInput::new(Target::agent("builder-7"), rules, 0)).await?;
    /// println!("version {}", saved.version);
    /// # Ok(())
    /// # }
    /// ```
    pub fn save_contact_permissions(&self, input: ContactPermissionsInput) -> Call<ContactPermissions> {
        let checked = limits::rules(input.rules.len(), MAX_POLICY_RULES);
        Call::new(self, &ops::SAVE_CONTACT_PERMISSIONS, &[]).checked(checked).json(&input)
    }
}
