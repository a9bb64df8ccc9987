-- Plans of the Coordinator. target, context (agent ids), instructions, dispatches: JSON.
CREATE TABLE plans (
    id TEXT {key} PRIMARY KEY,
    person_id TEXT {key} NOT NULL,
    automatic BOOLEAN NOT NULL,
    prompt TEXT NOT NULL,
    previous_plan_id TEXT {key},
    target TEXT,
    context TEXT NOT NULL,
    operation TEXT NOT NULL,
    summary TEXT NOT NULL,
    body TEXT NOT NULL,
    instructions TEXT NOT NULL,
    dispatches TEXT NOT NULL,
    dispatched_at BIGINT,
    reply_summary TEXT NOT NULL,
    reply_digest TEXT NOT NULL,
    summary_error TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX plans_person ON plans (person_id, id);
