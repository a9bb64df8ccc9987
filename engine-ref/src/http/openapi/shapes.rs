//! What each operation takes and answers, and the parameters that its path does not show.

use beepgrid::{
    Access, Account, AccountLink, AccountLinkInput, AckInput, AckManyInput, AckManyResult, AckResult, Agent, Answer,
    AnswerAndShareInput, AnswerAndShareResult, AnswerInput, AskBatchInput, AskBatchItem, AskInput, AssistanceSettings,
    AssistanceUpdate, Attachment, BlockingInput, CancelInput, CapabilityInput, CapabilityResult, ChatMembershipInput,
    ChatMembershipResult, Connection, ConnectionDiagnostics, ConnectionEdit, ConnectionInput, ConnectionSetup,
    ConnectionTestInput, ContactPermissions, ContactPermissionsInput, ContactPreview, ContactPreviewInput, Conversation,
    Credential, CredentialEdit, CredentialInput, CredentialReplacement, Deleted, Delivery, DeliveryPreferences, DeliveryRecord,
    Destination, DestinationEdit, DestinationInput, DispatchPreview, DispatchPreviewInput, EnrollInput, EventPage, Execution,
    ExplainInput, Explanation, ExtendInput, ExtendResult, FleetStatus, Group, GroupEdit, GroupInput, HeartbeatInput,
    HeartbeatResult, InboxInput, IssuedCredential, Me, OverseerConfirmation, OverseerInput, OverseerPlan, Person, PrincipalEdit,
    PrincipalInput, Provider, QueryInput, QueryPage, RedeemInput, ReleaseInput, ReleaseResult, ReplaceRequestInput,
    ReplacedRequest, ReportInput, Request, RequestTrace, RequeueInput, RequeueResult, ResponseInput, RevokeInput, RevokeResult,
    Role, RoleBinding, RoleBindingInput, RoleEdit, RoleInput, RolePreview, RolePreviewInput, RotateInput, RoutePreview,
    RoutePreviewInput, SendBatchInput, SendBatchItem, SendInput, SendReceipt, SendResult, Service, Session, StartChatInput,
    StatusInput, SupersedeInput, TracedDelivery, Workspace,
};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Value, json};

use super::schemas::Maker;

/// What an operation takes and answers.
pub(super) struct Shape {
    /// The operation's name in the table.
    pub(super) name: &'static str,
    pub(super) summary: &'static str,
    pub(super) body: Body,
    pub(super) answers: Answers,
    pub(super) parameters: &'static [Parameter],
}

/// A request's body.
pub(super) enum Body {
    Nothing,
    Json(Maker),
    /// One file in a form.
    File,
}

/// The content of a success.
pub(super) enum Answers {
    Json(Maker),
    /// A file, under its own media type.
    Bytes,
    /// Server-sent events.
    Events,
}

/// A parameter of the query string, or a header.
pub(super) struct Parameter {
    pub(super) name: &'static str,
    place: &'static str,
    required: bool,
    kind: &'static str,
    description: &'static str,
}

impl Parameter {
    const fn query(name: &'static str, kind: &'static str, description: &'static str) -> Self {
        Self { name, place: "query", required: false, kind, description }
    }

    pub(super) fn describe(&self) -> Value {
        let mut schema = json!({ "type": self.kind });
        if self.kind == "integer" {
            schema["minimum"] = json!(0);
        }
        json!({ "name": self.name, "in": self.place, "required": self.required, "description": self.description, "schema": schema })
    }
}

const CURSOR: &[Parameter] = &[Parameter::query("cursor", "string", "The `next_cursor` of the page before.")];
const REQUEST: &[Parameter] = &[Parameter::query("wait_ms", "integer", "How long to wait for the end, at most 15,000.")];
const MAYBE_SUBJECT: &[Parameter] = &[Parameter::query("subject_id", "string", "Of whom; the caller when absent.")];
const SUBJECT: &[Parameter] =
    &[Parameter { required: true, ..Parameter::query("subject_id", "string", "A principal or a group.") }];
const DIRECTORY: &[Parameter] = &[
    Parameter { required: true, ..Parameter::query("kind", "string", "`person`, `agent` or `service`.") },
    Parameter::query("search", "string", "A part of the name."),
    Parameter::query("limit", "integer", "How many there are on a page."),
    Parameter::query("cursor", "string", "The `next_cursor` of the page before."),
];
const EVENTS: &[Parameter] = &[
    Parameter::query("after", "integer", "The sequence after which to begin; 0 is the beginning."),
    Parameter::query("limit", "integer", "How many there are on a page; not of a stream."),
    Parameter::query("conversation_id", "string", "Only what happened there."),
    Parameter::query("summary", "boolean", "Ids only, no content."),
    Parameter::query("stream", "boolean", "A stream or a page, whatever `Accept` says."),
    Parameter { place: "header", ..Parameter::query("Last-Event-ID", "string", "Where a stream that broke off goes on.") },
];

fn json<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

macro_rules! body {
    (nothing) => {
        Body::Nothing
    };
    (file) => {
        Body::File
    };
    ($input:ident) => {
        Body::Json(json::<$input>)
    };
}

macro_rules! answers {
    (bytes) => {
        Answers::Bytes
    };
    (events) => {
        Answers::Events
    };
    ($answer:ty) => {
        Answers::Json(json::<$answer>)
    };
}

macro_rules! parameters {
    () => {
        &[]
    };
    ($parameters:ident) => {
        $parameters
    };
}

macro_rules! shapes {
    ($($name:ident: $summary:literal, $body:ident => [$($answers:tt)+] $(, $parameters:ident)?;)+) => {
        /// One row for each operation of the table.
        pub(super) const SHAPES: &[Shape] = &[$(
            Shape {
                name: stringify!($name),
                summary: $summary,
                body: body!($body),
                answers: answers!($($answers)+),
                parameters: parameters!($($parameters)?),
            },
        )+];
    };
}

shapes! {
    me: "The caller itself", nothing => [Me];
    enroll: "Makes or reconnects an agent's worker", EnrollInput => [Session];
    workspace: "The workspace and what serves it", nothing => [Workspace];
    credentials: "Visible credentials, never their tokens", nothing => [Vec<Credential>];
    create_credential: "Makes a credential; the only answer with its token", CredentialInput => [IssuedCredential];
    edit_credential: "Edits a credential", CredentialEdit => [Credential];
    rotate_credential: "Gives a credential a new token, the old one working on for a while", RotateInput => [CredentialReplacement];
    revoke_credential: "Ends a credential, also with its workers", RevokeInput => [RevokeResult];
    renew_credential: "Moves the end of the caller's own renewable credential", nothing => [Credential];
    directory: "Whom the caller can see", nothing => [QueryPage<Value>], DIRECTORY;
    send: "Stores a message", SendInput => [SendResult];
    send_minimal: "with `Prefer: return=minimal`, ids only", SendInput => [SendReceipt];
    send_batch: "Stores a message for each target, all or none", SendBatchInput => [Vec<SendBatchItem>];
    dispatch_preview: "Whom a send or a question would reach", DispatchPreviewInput => [DispatchPreview];
    conversation: "A conversation and its participants", nothing => [Conversation];
    start_chat: "Opens a shared chat with its first message", StartChatInput => [SendResult];
    change_chat_membership: "Adds and removes members and managers of a chat", ChatMembershipInput => [ChatMembershipResult];
    ask: "Puts a question, an approval or a task", AskInput => [Request];
    ask_batch: "Puts the same request to each target, all or none", AskBatchInput => [Vec<AskBatchItem>];
    get_request: "A request as it stands", nothing => [Request], REQUEST;
    wait: "with `wait_ms`, as soon as the request has left `open`", nothing => [Request], REQUEST;
    respond: "Decides a request", ResponseInput => [Request];
    cancel: "Withdraws a request", CancelInput => [Request];
    replace_request: "Withdraws a request and puts another in its place", ReplaceRequestInput => [ReplacedRequest];
    supersede: "Retires a request", SupersedeInput => [Request];
    set_request_blocking: "Says whether the requester waits", BlockingInput => [Request];
    request_trace: "What came of a request: deliveries, executions, answers", nothing => [RequestTrace], CURSOR;
    answers: "Published answers that the caller may read", nothing => [Vec<Answer>];
    publish_answer: "Publishes a decision for reuse", AnswerInput => [Answer];
    invalidate_answer: "Ends the reuse of an answer", nothing => [Answer];
    answer_and_share: "Answers a question and publishes the answer", AnswerAndShareInput => [AnswerAndShareResult];
    redeem: "Turns an approval into the right to act, once", RedeemInput => [Execution];
    report_execution: "Reports what was seen of an action", ReportInput => [Execution];
    attachments: "Files of a conversation", nothing => [Vec<Attachment>];
    stage_attachment: "Stores a file as a private draft", file => [Attachment];
    upload_attachment: "Stores a file in a conversation", file => [Attachment];
    attachment: "A file's name, type and size", nothing => [Attachment];
    download_attachment: "The bytes of a file", nothing => [bytes];
    inbox: "Leases work, waiting for some", InboxInput => [Vec<Delivery>];
    ack: "Acknowledges a delivery", AckInput => [AckResult];
    ack_many: "Acknowledges deliveries, each for itself", AckManyInput => [AckManyResult];
    extend: "Extends a lease", ExtendInput => [ExtendResult];
    release: "Gives a delivery back", ReleaseInput => [ReleaseResult];
    heartbeat: "Keeps an instance present and says what it does", HeartbeatInput => [HeartbeatResult];
    list_events: "A page of events", nothing => [EventPage], EVENTS;
    events: "a stream, with `Accept: text/event-stream` or `stream=true`", nothing => [events], EVENTS;
    create_person: "Makes a person", PrincipalInput => [Person];
    edit_person: "Edits a person", PrincipalEdit => [Person];
    set_person_status: "Stops or restores all access of a person", StatusInput => [Person];
    create_agent: "Makes an agent", PrincipalInput => [Agent];
    edit_agent: "Edits an agent", PrincipalEdit => [Agent];
    set_agent_status: "Stops or restores all access of an agent", StatusInput => [Agent];
    create_service: "Makes a service", PrincipalInput => [Service];
    edit_service: "Edits a service", PrincipalEdit => [Service];
    set_service_status: "Stops or restores all access of a service", StatusInput => [Service];
    create_group: "Makes a directory group", GroupInput => [Group];
    edit_group: "Edits a group", GroupEdit => [Group];
    delete_group: "Deletes a group", nothing => [Deleted];
    create_role: "Makes a role", RoleInput => [Role];
    edit_role: "Edits a role", RoleEdit => [Role];
    delete_role: "Deletes a role and its bindings", nothing => [Deleted];
    bind_role: "Gives a role to a principal or a group", RoleBindingInput => [RoleBinding];
    unbind_role: "Takes a role away", nothing => [Deleted];
    role_bindings: "The roles bound to a subject", nothing => [Vec<RoleBinding>], SUBJECT;
    preview_role: "What a role would permit", RolePreviewInput => [RolePreview];
    explain_permission: "Whether something is allowed, and by which rules", ExplainInput => [Explanation];
    save_contact_permissions: "Replaces a subject's contact policy whole", ContactPermissionsInput => [ContactPermissions];
    query: "A page of a collection", QueryInput => [QueryPage<Value>];
    account: "What the engine is limited to", nothing => [Account];
    provider_catalog: "Providers that the engine supports", nothing => [Vec<Provider>];
    fleet_status: "Agents, presence, and who waits for whom", nothing => [FleetStatus];
    access: "Roles and policy of a subject", nothing => [Access], MAYBE_SUBJECT;
    capabilities: "What the caller may do with a target, a request or a connection", CapabilityInput => [CapabilityResult];
    preview_contact_permissions: "What a contact policy would permit", ContactPreviewInput => [ContactPreview];
    create_connection: "Makes a channel connection", ConnectionInput => [Connection];
    edit_connection: "Edits a connection", ConnectionEdit => [Connection];
    delete_connection: "Deletes a connection", nothing => [Deleted];
    connection_setup: "What to enter at the provider", nothing => [ConnectionSetup];
    connection_diagnostics: "Checks of a connection; sends nothing", nothing => [ConnectionDiagnostics];
    test_connection: "Sends a test to one destination, once channels send; queues it", ConnectionTestInput => [DeliveryRecord];
    create_destination: "Adds where a person is reached", DestinationInput => [Destination];
    edit_destination: "Edits a destination", DestinationEdit => [Destination];
    delete_destination: "Deletes a destination", nothing => [Deleted];
    create_account_link: "Links a person with a provider account", AccountLinkInput => [AccountLink];
    delete_account_link: "Ends a link", nothing => [Deleted];
    preview_route: "Over which channels somebody would be reached", RoutePreviewInput => [RoutePreview];
    delivery_preferences: "How a person wants to be reached", nothing => [DeliveryPreferences];
    save_delivery_preferences: "Replaces how a person wants to be reached", DeliveryPreferences => [DeliveryPreferences];
    assistance: "Settings of the Coordinator", nothing => [AssistanceSettings];
    update_assistance: "Changes the settings of the Coordinator", AssistanceUpdate => [AssistanceSettings];
    plan_overseer: "Plans whom to send what; sends nothing", OverseerInput => [OverseerPlan];
    overseer_plans: "The caller's plans, newest first", nothing => [Vec<OverseerPlan>];
    overseer_plan: "A plan, what it sent, and the replies", nothing => [OverseerPlan];
    confirm_overseer: "Sends a plan, once", OverseerConfirmation => [OverseerPlan];
    summarize_overseer: "Has the replies of a plan summed up", nothing => [OverseerPlan];
    coordinate: "Plans and sends at once", OverseerInput => [OverseerPlan];
    requeue_delivery: "Takes a parked delivery up again", nothing => [TracedDelivery];
    requeue_deliveries: "Takes up the parked deliveries of an agent again", RequeueInput => [RequeueResult];
}
