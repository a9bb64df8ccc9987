-- What goes outside: one row for each message, request or connection test and each destination it goes to. reason, *_id: NULL
-- where they do not apply. operation_id: the message or request that it carries; a test carries itself.
-- state: queued | sending | accepted | failed | unknown.
CREATE TABLE transports (
    id TEXT {key} PRIMARY KEY,
    connection_id TEXT {key} NOT NULL,
    destination_id TEXT {key} NOT NULL,
    recipient_id TEXT {key} NOT NULL,
    kind TEXT NOT NULL,
    operation_id TEXT {key} NOT NULL,
    message_id TEXT {key},
    request_id TEXT {key},
    conversation_id TEXT {key},
    state TEXT NOT NULL,
    reason TEXT,
    attempts BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL
);
CREATE INDEX transports_connection ON transports (connection_id, id);
CREATE INDEX transports_operation ON transports (operation_id, id);
CREATE INDEX transports_request ON transports (request_id, id) WHERE request_id IS NOT NULL;
-- What waits to be sent, or is being sent: few.
CREATE INDEX transports_waiting ON transports (connection_id, destination_id, id) WHERE state IN ('queued', 'sending');

CREATE TABLE delivery_attempts (
    delivery_id TEXT {key} NOT NULL REFERENCES transports (id),
    number BIGINT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT,
    created_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    PRIMARY KEY (delivery_id, number)
);

-- Callbacks of providers whose signature was right, once for each id that the sender gave it.
CREATE TABLE callbacks (
    connection_id TEXT {key} NOT NULL REFERENCES connections (id),
    external_id TEXT {key} NOT NULL,
    body {blob} NOT NULL,
    received_at BIGINT NOT NULL,
    handled_at BIGINT,
    PRIMARY KEY (connection_id, external_id)
);
CREATE INDEX callbacks_waiting ON callbacks (connection_id, received_at) WHERE handled_at IS NULL;
