//! What can be told of publications without a store; the rest stands beside requests, in `requests/tests/sharing.rs`.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn two_contexts_are_one_only_when_every_part_is(
        a in (".{0,3}", ".{0,3}", prop::collection::vec(".{0,2}", 0..3)),
        b in (".{0,3}", ".{0,3}", prop::collection::vec(".{0,2}", 0..3)),
    ) {
        prop_assert_eq!(context(&a.0, &a.1, &a.2) == context(&b.0, &b.1, &b.2), a == b);
    }
}

#[test]
fn an_end_lies_in_the_future_and_within_ninety_days() {
    let now: Timestamp = "2026-12-01T08:00:00Z".parse().unwrap();
    assert_eq!(valid_until(now, None).unwrap(), now.plus(Duration::from_secs(24 * 3600)));
    let last = now.plus(LONGEST_VALIDITY);
    assert_eq!(valid_until(now, Some(last)).unwrap(), last);
    for wrong in [now, last.plus(Duration::from_micros(1)), Timestamp::NEVER] {
        assert!(valid_until(now, Some(wrong)).is_err());
    }
}
