-- What was redeemed: one execution for each request, and one for each business operation of an executor. result: JSON.
CREATE TABLE executions (
    id TEXT {key} PRIMARY KEY,
    request_id TEXT {key} NOT NULL REFERENCES requests (id),
    executor_id TEXT {key} NOT NULL,
    operation_key TEXT {key} NOT NULL,
    action TEXT NOT NULL,
    state TEXT NOT NULL,
    result TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX executions_request ON executions (request_id);
CREATE UNIQUE INDEX executions_operation ON executions (executor_id, operation_key);

-- Published answers to questions. context: a digest of title, body and choices, to be found by; the texts are those of the request.
CREATE TABLE answers (
    id TEXT {key} PRIMARY KEY,
    request_id TEXT {key} NOT NULL REFERENCES requests (id),
    publisher_id TEXT {key} NOT NULL,
    responder_id TEXT {key} NOT NULL,
    shared_key TEXT {key} NOT NULL,
    context TEXT {key} NOT NULL,
    valid_until BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    invalidated_at BIGINT
);
CREATE INDEX answers_request ON answers (request_id, id);
CREATE INDEX answers_publisher ON answers (publisher_id, id);
-- What a question looks for.
CREATE INDEX answers_offered ON answers (shared_key, context, id) WHERE invalidated_at IS NULL;

CREATE TABLE answer_audience (
    answer_id TEXT {key} NOT NULL REFERENCES answers (id),
    principal_id TEXT {key} NOT NULL,
    PRIMARY KEY (answer_id, principal_id)
);
CREATE INDEX answer_audience_principal ON answer_audience (principal_id, answer_id);
