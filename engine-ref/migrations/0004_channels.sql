-- Channels and assistance as data. Secrets are sealed before they come here.

CREATE TABLE connections (
    id TEXT {key} PRIMARY KEY,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    config TEXT NOT NULL,
    secret {blob},
    enabled BOOLEAN NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE destinations (
    id TEXT {key} PRIMARY KEY,
    connection_id TEXT {key} NOT NULL REFERENCES connections (id),
    principal_id TEXT {key} NOT NULL REFERENCES principals (id),
    address TEXT NOT NULL,
    mode TEXT NOT NULL,
    priority BIGINT NOT NULL,
    version BIGINT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX destinations_principal ON destinations (principal_id, priority, id);
CREATE INDEX destinations_connection ON destinations (connection_id, id);

CREATE TABLE account_links (
    id TEXT {key} PRIMARY KEY,
    connection_id TEXT {key} NOT NULL REFERENCES connections (id),
    principal_id TEXT {key} NOT NULL REFERENCES principals (id),
    provider_account TEXT {key} NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX account_links_account ON account_links (connection_id, provider_account);
CREATE INDEX account_links_principal ON account_links (principal_id, id);

CREATE TABLE delivery_preferences (
    person_id TEXT {key} PRIMARY KEY REFERENCES principals (id),
    version BIGINT NOT NULL,
    preferences TEXT NOT NULL
);

CREATE TABLE assistance (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    overseer BOOLEAN NOT NULL,
    version BIGINT NOT NULL
);
INSERT INTO assistance (id, overseer, version) VALUES (1, FALSE, 1);
