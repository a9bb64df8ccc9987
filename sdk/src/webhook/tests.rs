//! Field report B36: signatures over the bytes that travel.

use serde_json::Value;

use super::*;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// What a parser and a writer of JSON do not give back as it was.
const BODIES: &[&str] = &[
    r#"{"b":1.0,"a":1e3}"#,
    r#"{"text":"\u00e9 \ud83d\ude00"}"#,
    "{\"text\":\"é 😀\", \"spaced\" : true}",
    // Differs in more than the order, which a writer of JSON may keep.
    r#"{"z":1, "y":2, "x":{"n":1, "m":2}}"#,
    r#"{"large":12345678901234567890123}"#,
    "{\"line\":1}\n",
];

fn secret() -> WebhookSecret {
    SECRET.parse().unwrap()
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_micros(seconds * 1_000_000)
}

/// From the reference libraries of the scheme.
#[test]
fn the_published_example_is_signed_alike() {
    let signed = secret().sign("msg_p5jXN8AQM9LWM0D4loKWxJek", br#"{"test": 2432232314}"#, at(1_614_265_330));
    assert_eq!(signed.timestamp, "1614265330");
    assert_eq!(signed.signature, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

#[test]
fn raw_bodies_pass_and_rewritten_ones_fail() {
    let (secret, now) = (secret(), at(1_800_000_000));
    for body in BODIES {
        let signed = secret.sign("dlv_1", body.as_bytes(), now);
        let check = |body: &[u8]| secret.verify("dlv_1", &signed.timestamp, &signed.signature, body, now);
        assert_eq!(check(body.as_bytes()), Ok(()), "{body}");
        let rewritten = serde_json::from_str::<Value>(body).map_or_else(|_| "{}".to_owned(), |value| value.to_string());
        assert_ne!(&rewritten, body);
        assert_eq!(check(rewritten.as_bytes()), Err(WebhookError::Signature), "{body}");
    }
}

#[test]
fn another_attempt_has_its_own_time_and_signature_over_the_same_bytes() {
    let (secret, body) = (secret(), BODIES[0].as_bytes());
    let (first, second) = (secret.sign("dlv_1", body, at(1_800_000_000)), secret.sign("dlv_1", body, at(1_800_000_060)));
    assert_ne!(first, second);
    for signed in [&first, &second] {
        assert_eq!(secret.verify("dlv_1", &signed.timestamp, &signed.signature, body, at(1_800_000_060)), Ok(()));
    }
    // Neither id nor time can be changed by whoever carries it.
    assert!(secret.verify("dlv_2", &first.timestamp, &first.signature, body, at(1_800_000_000)).is_err());
    assert!(secret.verify("dlv_1", &second.timestamp, &first.signature, body, at(1_800_000_000)).is_err());
}

#[test]
fn old_and_future_times_are_refused() {
    let (secret, body) = (secret(), b"{}");
    let signed = secret.sign("dlv_1", body, at(1_800_000_000));
    let check = |now| secret.verify("dlv_1", &signed.timestamp, &signed.signature, body, at(now));
    for (now, fine) in [(-301, false), (-300, true), (300, true), (301, false)] {
        assert_eq!(check(1_800_000_000 + now), if fine { Ok(()) } else { Err(WebhookError::Time) });
    }
    for timestamp in ["", "+1800000000", "-1", "soon", "1800000000.0", "99999999999999999999"] {
        let checked = secret.verify("dlv_1", timestamp, &signed.signature, body, at(1_800_000_000));
        assert_eq!(checked, Err(WebhookError::Time), "{timestamp}");
    }
}

#[test]
fn one_of_several_signatures_is_enough() {
    let (secret, other, body, now) = (secret(), "another secret".parse::<WebhookSecret>().unwrap(), b"{}", at(1_800_000_000));
    let (signed, foreign) = (secret.sign("dlv_1", body, now), other.sign("dlv_1", body, now));
    let check = |signatures: &str| secret.verify("dlv_1", &signed.timestamp, signatures, body, now);
    assert_eq!(check(&format!("{} {}", foreign.signature, signed.signature)), Ok(()));
    let bare = signed.signature.strip_prefix("v1,").unwrap();
    for wrong in [&foreign.signature, "", "v1,", "v1,!", bare, &format!("v2,{bare}"), &signed.signature[..20]] {
        assert_eq!(check(wrong), Err(WebhookError::Signature), "{wrong}");
    }
}

#[test]
fn secrets_are_read_as_the_scheme_writes_them_and_never_shown() {
    assert_eq!("whsec_MTIzNDU2Nzg5MA==".parse::<WebhookSecret>().unwrap().expose_bytes(), b"1234567890");
    assert_eq!("plain text".parse::<WebhookSecret>().unwrap().expose_bytes(), b"plain text");
    for wrong in ["", "whsec_", "whsec_not base64"] {
        assert_eq!(wrong.parse::<WebhookSecret>().unwrap_err(), WebhookError::Secret, "{wrong}");
    }
    assert!(!format!("{:?}", "plain text".parse::<WebhookSecret>().unwrap()).contains("plain"));
}
