//! A workspace with people and agents in it, each with the narrowest rules that its part needs.

use std::time::Duration;

use beepgrid::Timestamp;
use reqwest::Method;
use serde_json::{Value, json};

use crate::raw::{Api, Members};
use crate::stores::{Kind, OWNER_TOKEN, Site};

/// A person or service with a token.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Calls as it.
    pub api: Api,
}

/// An enrolled worker.
#[derive(Clone, Debug)]
pub struct Worker {
    /// The agent.
    pub id: String,
    /// The agent's name.
    pub name: String,
    /// The agent's external id.
    pub external_id: String,
    /// This connection.
    pub instance: String,
    /// Calls as this connection.
    pub api: Api,
}

/// The populated workspace.
///
/// *Builder 7* and *Billing 2* may view, message and ask each other and Ann; Ann may view, message and ask both. Bob and
/// *Hidden 9* know nobody and nobody knows them.
#[derive(Debug)]
pub struct World {
    /// The engine under test.
    pub site: Site,
    /// The operator.
    pub owner: Caller,
    /// A person whom both agents know.
    pub ann: Caller,
    /// A person whom nobody knows.
    pub bob: Caller,
    /// An agent.
    pub builder: Worker,
    /// Another agent.
    pub billing: Worker,
    /// An agent whom nobody knows.
    pub hidden: Worker,
}

/// A rule that allows.
#[allow(clippy::needless_pass_by_value, reason = "callers write targets in place")]
pub fn allow(action: &str, target: Value) -> Value {
    json!({"action": action, "target_kind": target["kind"], "target_id": target["id"]})
}

/// A rule that denies.
#[allow(clippy::needless_pass_by_value, reason = "callers write targets in place")]
pub fn deny(action: &str, target: Value) -> Value {
    json!({"effect": "deny", "action": action, "target_kind": target["kind"], "target_id": target["id"]})
}

/// Rules to view, message and ask each target.
pub fn contacts(targets: &[Value]) -> Vec<Value> {
    targets.iter().flat_map(|t| ["view", "message", "ask"].map(|action| allow(action, t.clone()))).collect()
}

/// A target.
pub fn target(kind: &str, id: &str) -> Value {
    json!({"kind": kind, "id": id})
}

impl Caller {
    /// This person as a target.
    pub fn target(&self) -> Value {
        target("person", &self.id)
    }
}

impl Worker {
    /// The agent as a target.
    pub fn target(&self) -> Value {
        target("agent", &self.id)
    }

    /// This connection as a target.
    pub fn exact(&self) -> Value {
        target("instance", &self.instance)
    }

    /// Leases what is there now.
    pub async fn lease(&self, limit: i64) -> Vec<Value> {
        self.api.post("/inbox/lease", json!({"limit": limit})).await.ok().as_array().expect("a list").clone()
    }

    /// Leases and expects exactly one delivery.
    pub async fn lease_one(&self) -> Value {
        let mut leased = self.lease(10).await;
        assert_eq!(leased.len(), 1, "{leased:?}");
        leased.remove(0)
    }

    /// Acknowledges a delivery.
    pub async fn ack(&self, delivery: &Value) {
        let body = json!({"generation": delivery["generation"]});
        let acked = self.api.post(&format!("/inbox/{}/ack", delivery.id()), body).await.ok();
        assert_eq!(acked, json!({"received": true}));
    }

    /// Leases and acknowledges until nothing is left.
    pub async fn drain(&self) -> Vec<Value> {
        let mut taken = Vec::new();
        loop {
            let leased = self.lease(100).await;
            if leased.is_empty() {
                return taken;
            }
            for delivery in &leased {
                self.ack(delivery).await;
            }
            taken.extend(leased);
        }
    }
}

impl World {
    /// A workspace on that store with a clock that stands still until it is moved.
    pub async fn open(kind: Kind) -> Self {
        Self::populate(Site::manual(kind).await).await
    }

    /// A workspace on that store with the system's clock.
    pub async fn real(kind: Kind) -> Self {
        Self::populate(Site::real(kind).await).await
    }

    /// Populates what runs at `site`.
    pub async fn populate(site: Site) -> Self {
        let api = Api::new(&site.url, OWNER_TOKEN);
        let me = api.get("/me").await.ok();
        let owner = Caller { id: me["person"].id(), name: me["person"].s("name"), api };
        let ann = person(&owner, "Ann", "ann").await;
        let bob = person(&owner, "Bob", "bob").await;
        let builder = enroll(&owner.api, "team/builder-7", "Builder 7").await;
        let billing = enroll(&owner.api, "team/billing-2", "Billing 2").await;
        let hidden = enroll(&owner.api, "other/hidden-9", "Hidden 9").await;
        let world = Self { site, owner, ann, bob, builder, billing, hidden };
        world.policy(&world.builder.target(), contacts(&[world.ann.target(), world.billing.target()])).await;
        world.policy(&world.billing.target(), contacts(&[world.ann.target(), world.builder.target()])).await;
        world.policy(&world.ann.target(), contacts(&[world.builder.target(), world.billing.target()])).await;
        world
    }

    /// Saves a subject's contact policy, whatever its version is.
    pub async fn policy(&self, subject: &Value, rules: Vec<Value>) -> Value {
        for version in 0.. {
            let body = json!({"subject": subject, "rules": rules, "version": version});
            let answer = self.owner.api.put("/contact-permissions", body).await;
            if answer.status != 409 {
                return answer.ok();
            }
        }
        unreachable!("some version is the present one")
    }

    /// Makes everybody in the list view, message and ask everybody of every kind, through one role.
    pub async fn acquaint(&self, subjects: &[&str]) {
        let any = ["person", "agent", "service"].map(|kind| target(kind, "*"));
        let role = self.owner.api.post("/roles", json!({"name": "Everybody", "rules": contacts(&any)})).await.created();
        for subject in subjects {
            let body = json!({"role_id": role.id(), "subject_kind": "principal", "subject_id": subject});
            self.owner.api.post("/role-bindings", body).await.created();
        }
    }

    /// Lets a principal manage a kind of resource, through a role; gives the binding.
    pub async fn delegate(&self, kind: &str, subject: &str) -> String {
        let rule = json!({"action": "manage", "target_kind": kind, "target_id": "*"});
        let made = self.owner.api.post("/roles", json!({"name": format!("Managers of {kind}"), "rules": [rule]})).await.created();
        let body = json!({"role_id": made.id(), "subject_kind": "principal", "subject_id": subject});
        self.owner.api.post("/role-bindings", body).await.created().id()
    }

    /// A further person with a token and no rules.
    pub async fn person(&self, name: &str, external_id: &str) -> Caller {
        person(&self.owner, name, external_id).await
    }

    /// A further agent, or a further instance of a known one.
    pub async fn enroll(&self, external_id: &str, name: &str) -> Worker {
        enroll(&self.owner.api, external_id, name).await
    }

    /// A directory group.
    pub async fn group(&self, name: &str, members: &[&str]) -> String {
        let body = json!({"name": name, "purpose": "contacts", "members": members});
        self.owner.api.post("/groups", body).await.created().id()
    }

    /// A message to a target; gives the conversation and the message's id.
    pub async fn send(&self, from: &Api, to: &Value, body: &str) -> (String, String) {
        let sent = from.post("/messages", json!({"target": to, "body": body})).await.created();
        (sent.s("conversation_id"), sent["messages"][0].id())
    }

    /// A message in a conversation; gives its id.
    pub async fn say(&self, from: &Api, conversation: &str, body: &str) -> String {
        let sent = from.post("/messages", json!({"conversation_id": conversation, "body": body})).await.created();
        sent["messages"][0].id()
    }

    /// A question to a target.
    pub async fn ask(&self, from: &Api, to: &Value, body: &str) -> Value {
        from.post("/requests", json!({"target": to, "body": body})).await.created()
    }

    /// A conversation as `reader` sees it.
    pub async fn conversation(&self, reader: &Api, id: &str) -> Value {
        reader.get(&format!("/conversations/{id}")).await.ok()
    }

    /// The bodies of a conversation's messages as `reader` sees them.
    pub async fn bodies(&self, reader: &Api, id: &str) -> Vec<String> {
        self.conversation(reader, id).await["messages"].each("body")
    }

    /// The SDK's client with the owner's token.
    pub fn owner_client(&self) -> beepgrid::Client {
        self.client(&self.owner.api)
    }

    /// The SDK's client with a caller's token.
    pub fn client(&self, api: &Api) -> beepgrid::Client {
        beepgrid::Client::new(&self.site.url, api.token()).expect("a loopback address")
    }

    /// Moves the clock on.
    pub fn advance(&self, seconds: u64) {
        self.site.advance(Duration::from_secs(seconds));
    }

    /// The time in so many seconds.
    pub fn after(&self, seconds: u64) -> Timestamp {
        self.site.now().plus(Duration::from_secs(seconds))
    }

    /// Disables or restores an identity: `kind` is `people`, `agents` or `services`.
    pub async fn set_disabled(&self, kind: &str, id: &str, disabled: bool) {
        for version in 1.. {
            let body = json!({"disabled": disabled, "version": version});
            let answer = self.owner.api.call(Method::POST, &format!("/{kind}/{id}/status")).json(&body).await;
            if answer.status != 409 {
                answer.ok();
                return;
            }
        }
    }
}

/// Issues an api credential without end.
pub async fn credential(owner: &Api, principal: &str, permissions: Option<&[&str]>) -> (String, Api) {
    let mut body = json!({"principal_id": principal, "kind": "api", "name": "test", "never_expires": true});
    if let Some(permissions) = permissions {
        body["permissions"] = json!(permissions);
    }
    let issued = owner.post("/credentials", body).await.created();
    (issued.id(), owner.with(&issued.s("token")))
}

async fn person(owner: &Caller, name: &str, external_id: &str) -> Caller {
    let made = owner.api.post("/people", json!({"name": name, "external_id": external_id})).await.created();
    let (_, api) = credential(&owner.api, &made.id(), None).await;
    Caller { id: made.id(), name: name.to_owned(), api }
}

async fn enroll(owner: &Api, external_id: &str, name: &str) -> Worker {
    let body = json!({"agent": external_id, "name": name, "never_expires": true});
    let session = owner.post("/enroll", body).await.created();
    Worker {
        id: session["agent"].id(),
        name: session["agent"].s("name"),
        external_id: external_id.to_owned(),
        instance: session.s("instance_id"),
        api: owner.with(&session.s("token")),
    }
}
