//! Who the caller is, enrollment, credentials, the workspace.

use super::limits;
use crate::call::Call;
use crate::client::Client;
use crate::model::{
    Credential, CredentialEdit, CredentialId, CredentialInput, CredentialReplacement, EnrollInput, IssuedCredential, JsonMap, Me,
    RevokeInput, RotateInput, Session, Workspace,
};
use crate::ops;

/// Set-up.
impl Client {
    /// Says who the caller is, and by which credential.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// let me = client.me().await?;
    /// println!("{}, credential {}", me.identity_type, me.credential.id);
    /// # Ok(())
    /// # }
    /// ```
    pub fn me(&self) -> Call<Me> {
        Call::new(self, &ops::ME, &[])
    }

    /// Enrolls a runtime of an agent and returns its worker credential, which is shown only here.
    ///
    /// Sent once: a repeat would make a second runtime. Use the session with [`Client::with_token`], and keep its token with
    /// [`save_token`](crate::save_token).
    ///
    /// # Errors
    /// `forbidden` for a disabled agent, and for one outside the launcher's prefix whether it exists or not.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(launcher: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// use beepgrid::EnrollInput;
    ///
    /// let session = launcher.enroll(EnrollInput::new("team/builder-7", "Builder 7")).await?;
    /// let worker = launcher.with_token(session.token)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn enroll(&self, input: EnrollInput) -> Call<Session> {
        let checked = limits::external_id("agent", &input.agent)
            .and_then(|()| limits::capabilities(&input.capabilities))
            .and_then(|()| limits::metadata("metadata", &input.metadata));
        Call::new(self, &ops::ENROLL, &[]).checked(checked).json(&input)
    }

    /// Describes the workspace and the engine that serves it.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// let workspace = client.workspace().await?;
    /// println!("{} on engine {}", workspace.scope, workspace.version);
    /// # Ok(())
    /// # }
    /// ```
    pub fn workspace(&self) -> Call<Workspace> {
        Call::new(self, &ops::WORKSPACE, &[])
    }

    /// Lists the credentials that the caller may see, newest first; never their tokens.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// for credential in client.credentials().await? {
    ///     println!("{} …{} ends {:?}", credential.name, credential.token_hint, credential.expires_at);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn credentials(&self) -> Call<Vec<Credential>> {
        Call::new(self, &ops::CREDENTIALS, &[])
    }

    /// Issues an `api` or `enrollment` credential, whose token is shown only here.
    ///
    /// Sent once: a repeat would issue a second token. Nobody issues more than it has itself.
    ///
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, launcher: beepgrid::PrincipalId) -> Result<(), beepgrid::Error> {
    /// use beepgrid::CredentialInput;
    ///
    /// let issued = client.create_credential(CredentialInput::enrollment(&launcher, "team/")).await?;
    /// beepgrid::save_token(".local/launcher-token", issued.token)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn create_credential(&self, input: CredentialInput) -> Call<IssuedCredential> {
        Call::new(self, &ops::CREATE_CREDENTIAL, &[]).json(&input)
    }

    /// Edits a credential's name, end or ceiling, at the version last read.
    ///
    /// # Errors
    /// `version_conflict` if it changed since, `forbidden` for one that can do more or lasts longer than the caller's own.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(owner: beepgrid::Client, credential: beepgrid::Credential) -> Result<(), beepgrid::Error> {
    /// use beepgrid::CredentialEdit;
    ///
    /// owner.edit_credential(&credential.id, CredentialEdit::new(credential.version).name("Nightly build")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn edit_credential(&self, id: &CredentialId, input: CredentialEdit) -> Call<Credential> {
        Call::new(self, &ops::EDIT_CREDENTIAL, &[id.as_str()]).json(&input)
    }

    /// Gives a credential a new token, shown only here; id and instance stay. The token before works for the overlap.
    ///
    /// Sent once: when the answer is lost, the token before still works for the overlap, and another rotation succeeds.
    ///
    /// # Errors
    /// `version_conflict` if somebody else rotated it first.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(owner: beepgrid::Client, credential: beepgrid::Credential) -> Result<(), beepgrid::Error> {
    /// use beepgrid::RotateInput;
    ///
    /// let fresh = owner.rotate_credential(&credential.id, RotateInput::new(credential.version).overlap_seconds(600)).await?;
    /// beepgrid::save_token(".local/worker-token", fresh.token)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn rotate_credential(&self, id: &CredentialId, input: RotateInput) -> Call<CredentialReplacement> {
        Call::new(self, &ops::ROTATE_CREDENTIAL, &[id.as_str()]).json(&input)
    }

    /// Ends a credential at once, on request with the workers that it enrolled.
    ///
    /// # Errors
    /// `last_operator` for the last credential of the last operator.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(client: beepgrid::Client, lost: beepgrid::CredentialId) -> Result<(), beepgrid::Error> {
    /// use beepgrid::RevokeInput;
    ///
    /// client.revoke_credential(&lost, RevokeInput::new(true)).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn revoke_credential(&self, id: &CredentialId, input: RevokeInput) -> Call<()> {
        Call::confirmed(self, &ops::REVOKE_CREDENTIAL, &[id.as_str()]).json(&input)
    }

    /// Moves the end of the caller's own renewable worker credential, never past its hard deadline.
    ///
    /// [`Client::run`] does this by itself.
    ///
    /// # Errors
    /// `not_renewable` for any other credential.
    ///
    /// # Examples
    /// ```no_run
    /// # async fn example(worker: beepgrid::Client) -> Result<(), beepgrid::Error> {
    /// let credential = worker.renew_credential().await?;
    /// println!("good until {:?}", credential.expires_at);
    /// # Ok(())
    /// # }
    /// ```
    pub fn renew_credential(&self) -> Call<Credential> {
        Call::new(self, &ops::RENEW_CREDENTIAL, &[]).json(&JsonMap::new())
    }
}
