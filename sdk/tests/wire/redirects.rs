//! The token belongs to one address.

use beepgrid::{EnrollInput, ErrorKind, InboxInput};

use super::peer::{Peer, Reply};
use super::{TOKEN, builder, client, everything, message};

#[tokio::test]
async fn no_redirect_is_followed_to_anywhere_for_anything() {
    let other = Peer::replies(vec![Reply::ok("{}")]).await;
    for status in [300, 301, 302, 303, 305, 307, 308] {
        for to in [format!("{}/api/v1/me", other.url), "/api/v1/elsewhere".to_owned(), "http://user:pass@127.0.0.1:1/".to_owned()]
        {
            let reply = Reply::Whole { status, headers: vec![("location", to.clone())], body: Vec::new() };
            let peer = Peer::replies(vec![reply]).await;
            let client = client(&peer.url);
            let errors = [
                client.me().await.unwrap_err(),
                client.send(message()).await.unwrap_err(),
                client.enroll(EnrollInput::new("a/b", "B")).await.unwrap_err(),
                client.inbox(InboxInput::new()).await.unwrap_err(),
            ];
            for error in &errors {
                assert_eq!(error.kind(), ErrorKind::Redirect, "{status} {to}");
                assert!(!everything(error).contains(TOKEN) && !everything(error).contains("pass"));
            }
            assert_eq!(peer.seen().len(), errors.len(), "each sent once, to one address");
        }
    }
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn settings_that_would_follow_redirects_do_not() {
    let other = Peer::replies(vec![Reply::ok("{}")]).await;
    let reply = Reply::Whole { status: 307, headers: vec![("location", other.url.clone())], body: Vec::new() };
    let peer = Peer::replies(vec![reply]).await;
    let follow = |http: beepgrid::reqwest::ClientBuilder| http.redirect(beepgrid::reqwest::redirect::Policy::limited(10));
    let client = builder(&peer.url).http(follow).build().unwrap();
    assert_eq!(client.send(message()).await.unwrap_err().kind(), ErrorKind::Redirect);
    assert_eq!(other.connections(), 0);
}
