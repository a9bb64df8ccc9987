//! The providers that this engine supports: what they can do, what a connection to them needs, how they are set up.
//!
//! An entry says what is supported, not that anything is configured.

use beepgrid::{Provider, ProviderField};

struct Entry {
    kind: &'static str,
    name: &'static str,
    capabilities: &'static [&'static str],
    setup_modes: &'static [&'static str],
    fields: &'static [Field],
}

struct Field {
    name: &'static str,
    label: &'static str,
    kind: &'static str,
    /// Where it goes: `config`, or `secret`, which is never returned.
    place: &'static str,
    required: bool,
    help: &'static str,
}

const fn config(name: &'static str, label: &'static str, kind: &'static str, required: bool, help: &'static str) -> Field {
    Field { name, label, kind, place: "config", required, help }
}

const fn secret(label: &'static str, help: &'static str) -> Field {
    Field { name: "secret", label, kind: "text", place: "secret", required: true, help }
}

const CATALOG: &[Entry] = &[
    Entry {
        kind: "slack",
        name: "Slack",
        capabilities: &["messages", "requests", "replies", "decisions"],
        setup_modes: &["app"],
        fields: &[
            config("team_id", "Workspace id", "text", false, "The Slack workspace that the app is installed in."),
            secret("Bot token", "The bot token of the installed app, which starts with xoxb-."),
        ],
    },
    Entry {
        kind: "telegram",
        name: "Telegram",
        capabilities: &["messages", "requests", "replies", "decisions"],
        setup_modes: &["bot"],
        fields: &[
            config("bot_username", "Bot name", "text", false, "Shown to people who link their account."),
            secret("Bot token", "The token that was given when the bot was made."),
        ],
    },
    Entry {
        kind: "discord",
        name: "Discord",
        capabilities: &["messages", "requests", "replies", "decisions"],
        setup_modes: &["bot"],
        fields: &[
            config("application_id", "Application id", "text", false, "The id of the Discord application."),
            config("public_key", "Public key", "text", false, "Verifies interactions; from the application's page."),
            secret("Bot token", "The token of the application's bot."),
        ],
    },
    Entry {
        kind: "smtp",
        name: "Mail",
        capabilities: &["messages", "requests"],
        setup_modes: &["manual"],
        fields: &[
            config("host", "Server", "text", true, "The mail server's name."),
            config("port", "Port", "number", false, "587 when absent."),
            config("username", "User name", "text", false, "Absent for a server that asks for none."),
            config("from", "Sender", "email", true, "The address that mail comes from."),
            Field { required: false, ..secret("Password", "The user's password.") },
        ],
    },
    Entry {
        kind: "webhook",
        name: "Webhook",
        capabilities: &["messages", "requests"],
        setup_modes: &["manual"],
        fields: &[
            config("url", "Address", "url", true, "Where deliveries are sent, signed by the Standard Webhooks scheme."),
            secret("Signing secret", "whsec_ and base64, or any text of 8 to 4,096 bytes."),
        ],
    },
];

/// The catalogue, the same for every caller.
pub(crate) fn catalog() -> Vec<Provider> {
    let words = |list: &[&str]| list.iter().map(|word| (*word).to_owned()).collect();
    let entry = |entry: &Entry| Provider {
        kind: entry.kind.to_owned(),
        name: entry.name.to_owned(),
        capabilities: words(entry.capabilities),
        setup_modes: words(entry.setup_modes),
        fields: entry.fields.iter().map(field).collect(),
    };
    CATALOG.iter().map(entry).collect()
}

fn field(field: &Field) -> ProviderField {
    ProviderField {
        name: field.name.to_owned(),
        label: field.label.to_owned(),
        kind: field.kind.to_owned(),
        place: field.place.to_owned(),
        required: field.required,
        help: field.help.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::channels::PROVIDERS;

    #[test]
    fn the_catalogue_has_exactly_the_known_providers() {
        let kinds: Vec<String> = catalog().into_iter().map(|provider| provider.kind).collect();
        assert_eq!(kinds, PROVIDERS);
    }

    #[test]
    fn every_provider_has_one_secret_and_a_way_to_set_it_up() {
        for provider in catalog() {
            assert_eq!(provider.fields.iter().filter(|field| field.place == "secret").count(), 1, "{}", provider.kind);
            assert!(!provider.setup_modes.is_empty() && !provider.capabilities.is_empty());
        }
    }
}
