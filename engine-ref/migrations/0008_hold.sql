-- On hold after a restore: operators read and manage, and nothing else happens, until somebody takes the hold off.
ALTER TABLE workspace ADD COLUMN on_hold BOOLEAN NOT NULL DEFAULT FALSE;
