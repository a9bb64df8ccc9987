use super::*;
use crate::error::ErrorKind;

fn build(url: &str) -> Result<Client, Error> {
    Client::new(url, "token")
}

#[test]
fn a_base_url_is_http_or_https_with_a_host_and_nothing_else() {
    for url in
        ["http://localhost:4010", "http://127.0.0.1", "http://[::1]:4010/", "http://engine.localhost:1", "http://LOCALHOST/x/"]
    {
        assert!(build(url).is_ok(), "{url}");
    }
    for url in [
        "",
        "localhost:4010",
        "ftp://localhost",
        "file:///etc/passwd",
        "http://user@localhost",
        "http://user:pass@localhost",
        "http://:pass@localhost",
        "http://localhost?x=1",
        "http://localhost#x",
        "http://",
        "unix:/run/engine",
    ] {
        let error = build(url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{url}");
        assert!(!format!("{error:?} {}", crate::error::Chain(&error)).contains("pass@"), "{url}");
    }
}

#[test]
fn plain_http_beyond_this_machine_needs_to_be_asked_for() {
    for url in [
        "http://beepgrid.example",
        "http://10.0.0.1",
        "http://localhost.example",
        "http://127.0.0.1.example",
        "http://[::ffff:10.0.0.1]",
        "http://0.0.0.0",
    ] {
        assert_eq!(build(url).unwrap_err().kind(), ErrorKind::Configuration, "{url}");
        assert!(Client::builder(url).token("token").allow_insecure_http().build().is_ok(), "{url}");
    }
}

#[test]
fn slashes_and_the_api_prefix_at_the_end_make_no_difference() {
    for (given, url) in [
        ("http://localhost:4010/", "http://localhost:4010"),
        ("http://localhost:4010/api/v1/", "http://localhost:4010"),
        ("http://localhost/grid//", "http://localhost/grid"),
        ("http://localhost/grid/api/v1", "http://localhost/grid"),
    ] {
        assert_eq!(build(given).unwrap().url(), url);
    }
}

#[cfg(feature = "rustls")]
#[test]
fn https_works_with_our_own_tls() {
    assert!(build("https://beepgrid.example").is_ok());
}

#[cfg(not(feature = "rustls"))]
#[test]
fn https_without_tls_is_an_error_of_build() {
    assert_eq!(build("https://beepgrid.example").unwrap_err().kind(), ErrorKind::Configuration);
}

#[test]
fn a_token_is_required_and_checked() {
    assert_eq!(Client::builder("http://localhost").build().unwrap_err().kind(), ErrorKind::Configuration);
    for token in ["", "a b", "a\n", "ключ"] {
        let error = Client::new("http://localhost", token).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Configuration, "{token:?}");
    }
    assert!(build("http://localhost").unwrap().with_token("a\r\nx-evil: 1").is_err());
}

#[test]
fn settings_that_can_not_work_are_refused_at_once() {
    let builder = || Client::builder("http://localhost").token("token");
    for wrong in [
        builder().timeout(Duration::ZERO),
        builder().connect_timeout(Duration::ZERO),
        builder().max_response_bytes(0),
        builder().retry_delays(Duration::ZERO, Duration::from_secs(1)),
        builder().reconnect_delays(Duration::from_secs(2), Duration::from_secs(1)),
    ] {
        assert_eq!(wrong.build().unwrap_err().kind(), ErrorKind::Configuration);
    }
}

#[test]
fn a_client_can_be_shared_and_its_calls_can_move() {
    fn shared<T: Clone + Send + Sync + 'static>() {}
    fn moves<T: Send>(_: T) {}
    shared::<Client>();
    moves(std::future::IntoFuture::into_future(build("http://localhost").unwrap().me()));
    moves(std::future::IntoFuture::into_future(build("http://localhost").unwrap().wait(&crate::model::RequestId::new("req_1"))));
    let client = build("http://localhost").unwrap();
    moves(async move { client.run(tokio_util::sync::CancellationToken::new(), |_| async { Ok::<_, Error>(()) }).await });
}

#[test]
fn a_proxy_that_can_not_be_one_is_an_error_and_not_a_direct_connection() {
    let check = |value: &'static str| check_proxies(move |name| (name == "https_proxy").then(|| value.to_owned()));
    for fine in ["", "http://proxy.example:3128", "proxy.example:3128", "http://user:pass@proxy.example"] {
        assert!(check(fine).is_ok(), "{fine}");
    }
    for wrong in ["http://", "ht tp://x", "http://proxy:port"] {
        assert!(check(wrong).is_err(), "{wrong}");
    }
}
