-- The first schema. One text for SQLite and PostgreSQL: {key} is the binary collation, {blob} the byte type.
-- Times are microseconds since 1970 (BIGINT), JSON is TEXT, positions are event sequences.

CREATE TABLE workspace (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    sequence BIGINT NOT NULL,
    epoch TEXT NOT NULL,
    -- Events up to this sequence are gone.
    events_floor BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL
);
INSERT INTO workspace (id, sequence, epoch, created_at) VALUES (1, 0, '0', 0);

CREATE TABLE principals (
    id TEXT {key} PRIMARY KEY,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    external_id TEXT {key} NOT NULL,
    metadata TEXT NOT NULL,
    version BIGINT NOT NULL,
    disabled BOOLEAN NOT NULL,
    operator BOOLEAN NOT NULL,
    parent_id TEXT {key},
    enrolled_by TEXT {key},
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX principals_external ON principals (kind, external_id);
CREATE INDEX principals_kind ON principals (kind, id);

CREATE TABLE instances (
    id TEXT {key} PRIMARY KEY,
    agent_id TEXT {key} NOT NULL REFERENCES principals (id),
    name TEXT NOT NULL,
    capabilities TEXT NOT NULL,
    progress TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_seen BIGINT NOT NULL
);
CREATE INDEX instances_agent ON instances (agent_id, id);

CREATE TABLE credentials (
    id TEXT {key} PRIMARY KEY,
    principal_id TEXT {key} NOT NULL REFERENCES principals (id),
    instance_id TEXT {key} REFERENCES instances (id),
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    prefix TEXT {key} NOT NULL,
    digest {blob} NOT NULL,
    previous_digest {blob},
    previous_until BIGINT,
    token_hint TEXT NOT NULL,
    permissions TEXT,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT,
    expires_at BIGINT,
    renewable_until BIGINT,
    version BIGINT NOT NULL,
    revoked BOOLEAN NOT NULL,
    parent_id TEXT {key}
);
CREATE UNIQUE INDEX credentials_digest ON credentials (digest);
CREATE UNIQUE INDEX credentials_previous ON credentials (previous_digest) WHERE previous_digest IS NOT NULL;
CREATE INDEX credentials_principal ON credentials (principal_id, id);
CREATE INDEX credentials_parent ON credentials (parent_id);
CREATE INDEX credentials_instance ON credentials (instance_id);

CREATE TABLE directory_groups (
    id TEXT {key} PRIMARY KEY,
    name TEXT NOT NULL,
    purpose TEXT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE TABLE group_members (
    group_id TEXT {key} NOT NULL REFERENCES directory_groups (id),
    principal_id TEXT {key} NOT NULL REFERENCES principals (id),
    PRIMARY KEY (group_id, principal_id)
);
CREATE INDEX group_members_principal ON group_members (principal_id, group_id);

CREATE TABLE roles (
    id TEXT {key} PRIMARY KEY,
    name TEXT NOT NULL,
    rules TEXT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE TABLE role_bindings (
    id TEXT {key} PRIMARY KEY,
    role_id TEXT {key} NOT NULL REFERENCES roles (id),
    subject_kind TEXT NOT NULL,
    subject_id TEXT {key} NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX role_bindings_once ON role_bindings (role_id, subject_kind, subject_id);
CREATE INDEX role_bindings_subject ON role_bindings (subject_id, id);

CREATE TABLE contact_policies (
    subject_id TEXT {key} PRIMARY KEY,
    subject_kind TEXT NOT NULL,
    version BIGINT NOT NULL,
    rules TEXT NOT NULL
);

-- pair: the two sorted principal ids of a direct conversation, for reuse_direct; NULL in a shared chat.
CREATE TABLE conversations (
    id TEXT {key} PRIMARY KEY,
    shared BOOLEAN NOT NULL,
    title TEXT NOT NULL,
    version BIGINT NOT NULL,
    manager_id TEXT {key},
    pair TEXT {key},
    created_at BIGINT NOT NULL,
    last_sequence BIGINT NOT NULL
);
CREATE INDEX conversations_pair ON conversations (pair, last_sequence) WHERE pair IS NOT NULL;

-- A participant sees positions >= history_start while it is active. left_sequence: when it last left.
CREATE TABLE participants (
    conversation_id TEXT {key} NOT NULL REFERENCES conversations (id),
    principal_id TEXT {key} NOT NULL REFERENCES principals (id),
    history_start BIGINT NOT NULL,
    active BOOLEAN NOT NULL,
    left_sequence BIGINT,
    PRIMARY KEY (conversation_id, principal_id)
);
CREATE INDEX participants_principal ON participants (principal_id, conversation_id);

CREATE TABLE messages (
    id TEXT {key} PRIMARY KEY,
    conversation_id TEXT {key} NOT NULL REFERENCES conversations (id),
    sender_id TEXT {key} NOT NULL,
    instance_id TEXT {key},
    body TEXT NOT NULL,
    mentions TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX messages_conversation ON messages (conversation_id, sequence);

CREATE TABLE requests (
    id TEXT {key} PRIMARY KEY,
    conversation_id TEXT {key} NOT NULL REFERENCES conversations (id),
    requester_id TEXT {key} NOT NULL,
    requester_instance_id TEXT {key},
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    body TEXT NOT NULL,
    choices TEXT NOT NULL,
    mentions TEXT NOT NULL,
    blocking BOOLEAN NOT NULL,
    group_ask BOOLEAN NOT NULL,
    state TEXT NOT NULL,
    version BIGINT NOT NULL,
    action TEXT,
    executor_id TEXT {key},
    shared_key TEXT {key} NOT NULL,
    expires_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    sequence BIGINT NOT NULL,
    closed_at BIGINT,
    closed_by TEXT {key},
    response TEXT,
    replaces_id TEXT {key}
);
CREATE INDEX requests_conversation ON requests (conversation_id, sequence);
CREATE INDEX requests_requester ON requests (requester_id, id);
CREATE INDEX requests_due ON requests (expires_at) WHERE state = 'open';
-- The limit of open blocking requests of an agent.
CREATE INDEX requests_blocking ON requests (requester_id) WHERE state = 'open' AND blocking = TRUE;

-- The original audience. conversation_id: where this member reads it (its own private history in a group ask).
CREATE TABLE request_audience (
    request_id TEXT {key} NOT NULL REFERENCES requests (id),
    principal_id TEXT {key} NOT NULL,
    conversation_id TEXT {key} NOT NULL,
    PRIMARY KEY (request_id, principal_id)
);
CREATE INDEX request_audience_conversation ON request_audience (conversation_id, request_id);
CREATE INDEX request_audience_principal ON request_audience (principal_id, request_id);

-- state: ready | leased | acked | parked | withdrawn. due_at: when it may be leased next (a live lease: its end plus the
-- wait before the redelivery). lane: 0 results and withdrawals, 1 addressed to one instance, 2 ordered.
-- pin: NULL, 'hard' (that instance alone) or 'soft' (that instance while it lives).
-- waits: an ordered, live one that is not the first of these in its conversation.
CREATE TABLE deliveries (
    id TEXT {key} PRIMARY KEY,
    position BIGINT NOT NULL,
    agent_id TEXT {key} NOT NULL,
    instance_id TEXT {key},
    pin TEXT,
    lane BIGINT NOT NULL,
    kind TEXT NOT NULL,
    conversation_id TEXT {key} NOT NULL,
    message_id TEXT {key},
    request_id TEXT {key},
    sender_id TEXT {key} NOT NULL,
    state TEXT NOT NULL,
    reason TEXT,
    waits BOOLEAN NOT NULL,
    generation BIGINT NOT NULL,
    attempts BIGINT NOT NULL,
    leased_by TEXT {key},
    leased_at BIGINT,
    leased_until BIGINT,
    first_leased_at BIGINT,
    due_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    acked_at BIGINT
);
-- The lease walks what stands outside order, then the first of each conversation, and from there along the conversation; so one
-- that is held back costs one step, however much stands behind it.
CREATE INDEX deliveries_unordered ON deliveries (agent_id, lane, position, id) WHERE lane < 2 AND state IN ('ready', 'leased');
CREATE INDEX deliveries_front ON deliveries (agent_id, position, id) WHERE waits = FALSE AND lane = 2 AND state IN ('ready', 'leased');
CREATE INDEX deliveries_line ON deliveries (agent_id, conversation_id, position, id) WHERE lane = 2 AND state IN ('ready', 'leased');
-- Whether something in a conversation is held, or due.
CREATE INDEX deliveries_holding ON deliveries (agent_id, conversation_id, due_at) WHERE lane = 2 AND state IN ('ready', 'leased');
-- When the next one becomes due, for polls that wait.
CREATE INDEX deliveries_held ON deliveries (agent_id, due_at) WHERE state IN ('ready', 'leased');
CREATE INDEX deliveries_message ON deliveries (message_id) WHERE message_id IS NOT NULL;
CREATE INDEX deliveries_request ON deliveries (request_id) WHERE request_id IS NOT NULL;
-- What the sweeper looks at: parked ones for requeueing, those to be parked, those that wait for one instance.
CREATE INDEX deliveries_parked ON deliveries (agent_id, position, id) WHERE state = 'parked';
CREATE INDEX deliveries_worn ON deliveries (first_leased_at) WHERE state IN ('ready', 'leased') AND attempts >= 20;
CREATE INDEX deliveries_pinned ON deliveries (instance_id) WHERE pin IS NOT NULL AND state IN ('ready', 'leased');

-- How many live messages and requests an agent has of one sender: counted as they come and go, because a send may not count thousands.
CREATE TABLE backlogs (
    agent_id TEXT {key} NOT NULL,
    sender_id TEXT {key} NOT NULL,
    undelivered BIGINT NOT NULL,
    PRIMARY KEY (agent_id, sender_id)
);

CREATE TABLE events (
    sequence BIGINT PRIMARY KEY,
    id TEXT {key} NOT NULL,
    kind TEXT NOT NULL,
    actor_id TEXT {key} NOT NULL,
    conversation_id TEXT {key} NOT NULL,
    recipient_id TEXT {key} NOT NULL,
    subject_id TEXT {key} NOT NULL,
    data TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

-- Where an event is looked for: a principal who may be able to see it, a conversation that it belongs to, or '*' for what each
-- reader decides by its own rules (identities). Filled with the event, so that a reader's cost follows what concerns it; whether it
-- may see an event is decided when it is read.
CREATE TABLE event_readers (
    reader TEXT {key} NOT NULL,
    sequence BIGINT NOT NULL,
    PRIMARY KEY (reader, sequence)
);

-- Idempotency: digest of the request and the ids of what it created; bodies are not kept.
CREATE TABLE idempotency_keys (
    principal_id TEXT {key} NOT NULL,
    operation TEXT NOT NULL,
    idem_key TEXT {key} NOT NULL,
    digest {blob} NOT NULL,
    made TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (principal_id, operation, idem_key)
);
