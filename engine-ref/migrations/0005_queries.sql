-- What the queries page by: whoever is no operator is served from its own part of an index, never by looking through a table.

-- A participant's conversations by recent activity, and its shared chats, beside the participant itself.
ALTER TABLE participants ADD COLUMN last_sequence BIGINT NOT NULL DEFAULT 0;
ALTER TABLE participants ADD COLUMN shared BOOLEAN NOT NULL DEFAULT FALSE;
UPDATE participants SET
    last_sequence = (SELECT c.last_sequence FROM conversations c WHERE c.id = participants.conversation_id),
    shared = (SELECT c.shared FROM conversations c WHERE c.id = participants.conversation_id);
CREATE INDEX participants_recent ON participants (principal_id, last_sequence, conversation_id) WHERE active = TRUE;
CREATE INDEX participants_shared ON participants (principal_id, conversation_id) WHERE active = TRUE AND shared = TRUE;
CREATE INDEX conversations_recent ON conversations (last_sequence, id);

CREATE INDEX requests_executor ON requests (executor_id, id) WHERE executor_id IS NOT NULL;

-- Who may be able to see an execution (who asked, who decided, who executes) or a delivery (who asked). Filled with the thing;
-- whether it may be seen is decided when it is read.
CREATE TABLE item_readers (
    reader TEXT {key} NOT NULL,
    item_id TEXT {key} NOT NULL,
    PRIMARY KEY (reader, item_id)
);
INSERT INTO item_readers (reader, item_id)
    SELECT e.executor_id, e.id FROM executions e
    UNION SELECT r.requester_id, e.id FROM executions e JOIN requests r ON r.id = e.request_id
    UNION SELECT r.closed_by, e.id FROM executions e JOIN requests r ON r.id = e.request_id WHERE r.closed_by IS NOT NULL
    UNION SELECT r.requester_id, d.id FROM deliveries d JOIN requests r ON r.id = d.request_id;

-- Deliveries that were set aside: few, and looked for in a table that grows for ever.
CREATE INDEX deliveries_set_aside ON deliveries (id) WHERE state = 'parked';
CREATE INDEX deliveries_set_aside_of ON deliveries (agent_id, id) WHERE state = 'parked';

CREATE INDEX attachments_ids ON attachments (conversation_id, id) WHERE conversation_id IS NOT NULL;
