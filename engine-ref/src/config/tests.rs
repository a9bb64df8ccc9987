use std::collections::HashMap;
use std::io::Write as _;

use secrecy::ExposeSecret as _;

use super::*;

const KEY: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1F";

/// Settings from an environment that is only this table, with a secret key unless the table says otherwise.
fn load(flags: Flags, environment: &[(&str, &str)]) -> Result<Settings, ConfigError> {
    let mut variables = HashMap::from([("BEEPGRID_SECRET_KEY", KEY)]);
    variables.extend(environment.iter().copied());
    Settings::load(flags, |name| variables.get(name).map(OsString::from))
}

fn flag(setting: Setting, value: &str) -> Flags {
    Flags { settings: vec![(setting, value.to_owned())], ..Flags::default() }
}

/// The setting that is refused.
fn refused(environment: &[(&str, &str)]) -> &'static str {
    load(Flags::default(), environment).expect_err("a refusal").setting
}

fn file(text: &str) -> tempfile::NamedTempFile {
    // Private from the start, as temporary files are.
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(text.as_bytes()).expect("written");
    file
}

fn from_file(file: &tempfile::NamedTempFile) -> Flags {
    Flags { config: Some(file.path().to_owned()), ..Flags::default() }
}

#[test]
fn defaults_are_the_contracts() {
    let settings = load(Flags::default(), &[]).expect("settings");
    assert_eq!(settings.address, "127.0.0.1:4010".parse().expect("an address"));
    assert_eq!(settings.public_url, "http://localhost:4010");
    assert!(matches!(&settings.database, DatabaseUrl::Sqlite(path) if path.to_str() == Some(".local/beepgrid.db")));
    assert_eq!((settings.workspace.as_str(), settings.environment.as_str()), ("local", "development"));
    assert!(settings.bootstrap_token.is_none() && settings.coordinator.is_none() && settings.ignored.is_empty());
    assert_eq!(settings.secret_key.map(|key| key.bytes()[31]), Some(0x1F));
}

#[test]
fn flags_win_over_environment_over_file_over_default() {
    let file = file("workspace = \"file\"\nenvironment = \"file\"\nschema = \"file\"");
    let mut flags = from_file(&file);
    flags.settings.push((Setting::Workspace, "flag".to_owned()));
    let environment = [
        ("BEEPGRID_WORKSPACE", "environment"),
        ("BEEPGRID_ENVIRONMENT", "environment"),
        ("BEEPGRID_DATABASE_URL", "postgres://db/x"),
    ];
    let settings = load(flags, &environment).expect("settings");
    assert_eq!((settings.workspace.as_str(), settings.environment.as_str()), ("flag", "environment"));
    assert!(matches!(&settings.database, DatabaseUrl::Postgres { schema, .. } if schema == "file"));
    assert_eq!(settings.log, DEFAULT_LOG);
}

#[test]
fn empty_variables_count_as_absent() {
    let settings = load(Flags::default(), &[("BEEPGRID_ADDR", ""), ("BEEPGRID_BOOTSTRAP_TOKEN", "")]).expect("settings");
    assert_eq!(settings.address.port(), 4010);
    assert!(settings.bootstrap_token.is_none());
}

#[test]
fn each_bad_value_is_refused_by_the_name_of_its_setting() {
    let long = "x".repeat(201);
    let cases = [
        ("BEEPGRID_ADDR", "4010"),
        ("BEEPGRID_ADDR", "example.com:4010"),
        ("BEEPGRID_ADDR", "0.0.0.0:4010"),
        ("BEEPGRID_ADDR", "[::]:4010"),
        ("BEEPGRID_PUBLIC_URL", "ftp://example.com"),
        ("BEEPGRID_PUBLIC_URL", "https://user@example.com"),
        ("BEEPGRID_PUBLIC_URL", "https://example.com/path"),
        ("BEEPGRID_PUBLIC_URL", "https://example.com/?q"),
        ("BEEPGRID_PUBLIC_URL", "https://example.com/#f"),
        ("BEEPGRID_PUBLIC_URL", "example.com"),
        ("BEEPGRID_DATABASE_URL", "mysql://db"),
        ("BEEPGRID_DATABASE_URL", "beepgrid.db"),
        ("BEEPGRID_DATABASE_URL", "sqlite:"),
        ("BEEPGRID_DATABASE_URL", "sqlite::memory:"),
        ("BEEPGRID_DATABASE_URL", "sqlite://relative.db"),
        ("BEEPGRID_SCHEMA", "Upper"),
        ("BEEPGRID_SCHEMA", "1st"),
        ("BEEPGRID_SCHEMA", "pg_mine"),
        ("BEEPGRID_WORKSPACE", "two\nlines"),
        ("BEEPGRID_ENVIRONMENT", &long),
        ("BEEPGRID_BOOTSTRAP_TOKEN", "short"),
        ("BEEPGRID_BOOTSTRAP_TOKEN", "0123456789 0123456789 0123456789 x"),
        ("BEEPGRID_SECRET_KEY", "00"),
        ("BEEPGRID_SECRET_KEY", "+1020304050607080900112233445566778899aabbccddeeff001122334455667"),
        ("BEEPGRID_METRICS_ADDR", "192.0.2.1:9000"),
        ("BEEPGRID_AI_PROVIDER", "other"),
        ("BEEPGRID_LOG", "info,=,"),
        ("BEEPGRID_LOG_FORMAT", "xml"),
    ];
    for (name, value) in cases {
        assert_eq!(refused(&[(name, value)]), name, "{value}");
    }
}

#[test]
fn the_secret_key_is_needed_except_in_development() {
    assert_eq!(refused(&[("BEEPGRID_SECRET_KEY", "")]), "BEEPGRID_SECRET_KEY");
    let settings = load(Flags { dev: true, ..Flags::default() }, &[("BEEPGRID_SECRET_KEY", "")]).expect("settings");
    assert!(settings.secret_key.is_none());
}

#[test]
fn beyond_loopback_needs_https_or_a_decision() {
    let open = ("BEEPGRID_ADDR", "0.0.0.0:0");
    assert_eq!(refused(&[open, ("BEEPGRID_PUBLIC_URL", "http://example.com")]), "BEEPGRID_ADDR");
    load(Flags::default(), &[open, ("BEEPGRID_PUBLIC_URL", "https://example.com/")]).expect("https in front");
    load(Flags { insecure_http: true, ..Flags::default() }, &[open]).expect("asked for");
    let dev = Flags { dev: true, insecure_http: true, ..Flags::default() };
    let error = load(dev, &[open, ("BEEPGRID_PUBLIC_URL", "https://example.com")]).expect_err("never in development");
    assert_eq!(error.setting, "BEEPGRID_ADDR");
    for local in ["127.0.0.2:0", "[::1]:0", "[::ffff:127.0.0.1]:0", "localhost:0"] {
        load(Flags::default(), &[("BEEPGRID_ADDR", local)]).expect(local);
    }
}

#[test]
fn no_error_and_no_debug_shows_a_secret() {
    let secret = "hunter2hunter2";
    let token = format!("{secret}{secret}{secret}");
    for (name, value) in [("BEEPGRID_BOOTSTRAP_TOKEN", secret), ("BEEPGRID_SECRET_KEY", secret)] {
        let error = load(Flags::default(), &[(name, value)]).expect_err("too short");
        assert!(!format!("{error} {error:?}").contains(secret), "{error}");
    }
    let url = format!("postgres://me:{secret}@db/x");
    let settings =
        load(Flags::default(), &[("BEEPGRID_DATABASE_URL", &url), ("BEEPGRID_BOOTSTRAP_TOKEN", &token)]).expect("settings");
    let shown = format!("{settings:?}");
    assert!(!shown.contains(secret) && !shown.contains("[0, 1, 2"), "{shown}");
    assert_eq!(settings.bootstrap_token.expect("a token").expose_secret(), token);
    for url in [url.as_str(), "postgres://db/x?password=hunter2hunter2"] {
        let error = load(flag(Setting::DatabaseUrl, url), &[]).expect_err("a password on the command line");
        assert_eq!((error.setting, &error.origin), ("BEEPGRID_DATABASE_URL", &Origin::Flag));
        assert!(!error.to_string().contains(secret), "{error}");
    }
    let broken = file("secret_key = \"hunter2hunter2\" oops");
    let error = load(from_file(&broken), &[]).expect_err("no TOML");
    assert!(!format!("{error} {error:?}").contains(secret), "{error}");
}

#[test]
fn a_file_gives_texts_under_known_names_only() {
    for (text, setting) in [
        ("adress = \"127.0.0.1:1\"", "--config"),
        ("addr = 4010", "BEEPGRID_ADDR"),
        ("addr = \"nowhere\"", "BEEPGRID_ADDR"),
        ("[addr]\nport = 1", "BEEPGRID_ADDR"),
        ("addr", "--config"),
    ] {
        let file = file(text);
        let error = load(from_file(&file), &[]).expect_err(text);
        assert_eq!((error.setting, error.origin), (setting, Origin::File(file.path().to_owned())), "{text}");
    }
    let missing = Flags { config: Some("no/such/file.toml".into()), ..Flags::default() };
    assert_eq!(load(missing, &[]).expect_err("no file").setting, "--config");
}

#[cfg(unix)]
#[test]
fn a_file_that_others_read_gives_no_secrets() {
    use std::os::unix::fs::PermissionsExt as _;
    let shared = file("workspace = \"shared\"");
    std::fs::set_permissions(shared.path(), std::fs::Permissions::from_mode(0o644)).expect("shared");
    assert_eq!(load(from_file(&shared), &[]).expect("nothing secret").workspace, "shared");
    let secret = file(&format!("secret_key = \"{KEY}\""));
    load(from_file(&secret), &[]).expect("private");
    std::fs::set_permissions(secret.path(), std::fs::Permissions::from_mode(0o640)).expect("shared");
    assert_eq!(load(from_file(&secret), &[]).expect_err("readable").setting, "BEEPGRID_SECRET_KEY");
}

#[test]
fn coordinator_settings_belong_together() {
    let key = file("provider-key\n");
    let key_file = ("BEEPGRID_AI_KEY_FILE", key.path().to_str().expect("a path"));
    let (provider, model) = (("BEEPGRID_AI_PROVIDER", "openai"), ("BEEPGRID_AI_MODEL", "m"));
    let compatible = ("BEEPGRID_AI_PROVIDER", "compatible");
    let url = ("BEEPGRID_AI_URL", "http://127.0.0.1:9/v1");
    assert_eq!(refused(&[model]), "BEEPGRID_AI_MODEL");
    assert_eq!(refused(&[provider, key_file]), "BEEPGRID_AI_MODEL");
    assert_eq!(refused(&[provider, model]), "BEEPGRID_AI_KEY_FILE");
    assert_eq!(refused(&[provider, model, key_file, url]), "BEEPGRID_AI_URL");
    assert_eq!(refused(&[compatible, model]), "BEEPGRID_AI_URL");
    assert_eq!(refused(&[compatible, model, ("BEEPGRID_AI_URL", "http://example.com")]), "BEEPGRID_AI_URL");
    assert_eq!(refused(&[provider, model, ("BEEPGRID_AI_KEY_FILE", "no/such/file")]), "BEEPGRID_AI_KEY_FILE");
    let settings = load(Flags::default(), &[provider, model, key_file]).expect("settings");
    assert_eq!(settings.coordinator.map(|coordinator| coordinator.provider).as_deref(), Some("openai"));
    let settings = load(Flags::default(), &[compatible, model, url]).expect("settings");
    assert_eq!(settings.coordinator.and_then(|coordinator| coordinator.url).as_deref(), Some(url.1));
}

#[test]
fn what_has_no_effect_is_listed() {
    let environment =
        [("BEEPGRID_METRICS_ADDR", "127.0.0.1:0"), ("BEEPGRID_ATTACHMENTS_DIR", "files"), ("BEEPGRID_SCHEMA", "mine")];
    let settings = load(Flags::default(), &environment).expect("settings");
    let names: Vec<&str> = settings.ignored.iter().map(|ignored| ignored.setting.name()).collect();
    assert_eq!(names, ["BEEPGRID_ATTACHMENTS_DIR", "BEEPGRID_METRICS_ADDR", "BEEPGRID_SCHEMA"]);
    assert_eq!(settings.attachments, Some(Attachments::Folder("files".into())));
}
