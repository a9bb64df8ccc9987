-- Files: private drafts, and what belongs to a message, a request or a conversation.

-- Where the bytes of an attachment are; several attachments may share them. bytes: NULL when they are in a file named by the id.
-- A row whose file may not be there yet stands from before the file is written, so that nothing is left behind unknown.
CREATE TABLE blobs (
    id TEXT {key} PRIMARY KEY,
    bytes {blob},
    -- Whether something that stays refers to them: a file that is no draft. Then they stay too.
    kept BOOLEAN NOT NULL,
    created_at BIGINT NOT NULL
);

-- position: the event sequence of what it belongs to, NULL with conversation_id for a draft. place: its place among the files of one
-- operation.
CREATE TABLE attachments (
    id TEXT {key} PRIMARY KEY,
    uploader_id TEXT {key} NOT NULL REFERENCES principals (id),
    conversation_id TEXT {key} REFERENCES conversations (id),
    message_id TEXT {key} REFERENCES messages (id),
    request_id TEXT {key} REFERENCES requests (id),
    position BIGINT,
    place BIGINT NOT NULL,
    file_name TEXT NOT NULL,
    media_type TEXT NOT NULL,
    size BIGINT NOT NULL,
    sha256 TEXT NOT NULL,
    blob_id TEXT {key} NOT NULL REFERENCES blobs (id),
    created_at BIGINT NOT NULL
);
CREATE INDEX attachments_conversation ON attachments (conversation_id, position, place, id) WHERE conversation_id IS NOT NULL;
CREATE INDEX attachments_message ON attachments (message_id, place) WHERE message_id IS NOT NULL;
CREATE INDEX attachments_request ON attachments (request_id, conversation_id, place) WHERE request_id IS NOT NULL;
-- Drafts: their uploader's limits, and those that go.
CREATE INDEX attachments_drafts ON attachments (uploader_id) WHERE conversation_id IS NULL;
CREATE INDEX attachments_unclaimed ON attachments (created_at) WHERE conversation_id IS NULL;
CREATE INDEX attachments_blob ON attachments (blob_id);
CREATE INDEX blobs_loose ON blobs (created_at) WHERE kept = FALSE;
