//! Field reports B43, B44, B46: times, whole numbers and text, the same on both stores.

use beepgrid_tests::on_both_stores;
use beepgrid_tests::raw::Members;
use beepgrid_tests::world::World;
use serde_json::json;

on_both_stores!(
    times_are_normalised_and_kept_to_microseconds,
    due_times_follow_the_instant_and_not_the_text,
    whole_numbers_stay_below_two_to_the_53,
    nul_names_its_member,
    the_sdk_reads_what_the_engine_writes,
);

async fn times_are_normalised_and_kept_to_microseconds(w: World) {
    for (given, kept) in [
        ("2026-12-24T12:00:00Z", "2026-12-24T12:00:00Z"),
        ("2026-12-24T12:00:00.5Z", "2026-12-24T12:00:00.5Z"),
        ("2026-12-24T12:00:00.50+00:00", "2026-12-24T12:00:00.5Z"),
        ("2026-12-24T12:00:00.123456+03:00", "2026-12-24T09:00:00.123456Z"),
        ("2026-12-24T12:00:00.123456789Z", "2026-12-24T12:00:00.123456Z"),
        ("2026-12-24T12:00:00.000000-11:30", "2026-12-24T23:30:00Z"),
        ("2026-12-24T23:59:59.999999999Z", "2026-12-24T23:59:59.999999Z"),
    ] {
        let body = json!({"target": w.ann.target(), "body": "q", "expires_at": given});
        let asked = w.builder.api.post("/requests", body).await.created();
        assert_eq!(asked["expires_at"], kept, "{given}");
        assert_eq!(w.ann.api.get(&format!("/requests/{}", asked.id())).await.ok()["expires_at"], kept);
    }
    for odd in ["2026-12-24T12:00:00", "2026-12-24 12:00", "2026-12-24T24:00:00Z", "2026-02-30T12:00:00Z", "20261224T120000Z"] {
        w.builder
            .api
            .post("/requests", json!({"target": w.ann.target(), "body": "q", "expires_at": odd}))
            .await
            .invalid("expires_at");
    }
}

async fn due_times_follow_the_instant_and_not_the_text(w: World) {
    // Seconds from now, written so that the order of the texts is another one than that of the instants.
    let base = w.after(100);
    let at = |micros: u64| base.plus(std::time::Duration::from_micros(micros));
    let east = |micros: u64| {
        let utc = at(micros).plus(std::time::Duration::from_secs(3 * 3_600)).to_string();
        utc.replace('Z', "+03:00")
    };
    let texts = [
        (1, at(0).to_string()),
        (2, east(100_000)),
        (3, at(120_000).to_string()),
        (4, east(500_000)),
        (5, at(1_000_000).to_string()),
    ];
    let mut ids = Vec::new();
    for (order, text) in texts.iter().rev() {
        let body = json!({"target": w.ann.target(), "body": order.to_string(), "expires_at": text});
        ids.push((*order, w.builder.api.post("/requests", body).await.created().id()));
    }
    ids.sort();
    w.advance(100);
    let mut passed = 0;
    for (step, due) in [(0, 1), (100_000, 2), (120_000, 3), (499_999, 3), (500_000, 4), (1_000_000, 5)] {
        w.site.advance(std::time::Duration::from_micros(step - passed));
        passed = step;
        for (order, id) in &ids {
            let state = w.builder.api.get(&format!("/requests/{id}")).await.ok()["state"].clone();
            assert_eq!(state, if *order <= due { "expired" } else { "open" }, "{order} after {step} µs");
        }
    }
}

async fn whole_numbers_stay_below_two_to_the_53(w: World) {
    let (conversation, _) = w.send(&w.builder.api, &w.billing.target(), "x").await;
    let limit = 1_i64 << 53;
    let shown = w.conversation(&w.builder.api, &conversation).await;
    assert!(shown["messages"][0].n("sequence") < limit && shown.n("history_start") < limit);
    assert!(w.billing.lease_one().await.n("generation") < limit);
}

async fn nul_names_its_member(w: World) {
    let nul = "a\u{0}b";
    w.builder.api.post("/messages", json!({"target": w.billing.target(), "body": nul})).await.invalid("body");
    w.builder.api.post("/messages", json!({"target": w.billing.target(), "body": "x", "title": nul})).await.invalid("title");
    w.owner.api.post("/people", json!({"name": nul, "external_id": "e"})).await.invalid("name");
    w.owner.api.post("/people", json!({"name": "A", "external_id": nul})).await.invalid("external_id");
    w.owner.api.post("/people", json!({"name": "A", "external_id": "e", "metadata": {"k": nul}})).await.invalid("metadata");
    w.owner.api.post("/people", json!({"name": "A", "external_id": "e", "metadata": {nul: 1}})).await.invalid("metadata");
    w.builder.api.post("/heartbeat", json!({"progress": {"k": nul}})).await.invalid("progress");
    w.owner.api.get("/directory?kind=agent&search=a%00b").await.invalid("search");
}

async fn the_sdk_reads_what_the_engine_writes(w: World) {
    let (conversation, _) = w.send(&w.builder.api, &w.billing.target(), "x").await;
    let asked = w.ask(&w.builder.api, &w.billing.target(), "q").await;
    let read: beepgrid::Request = serde_json::from_value(asked.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), asked);
    let shown = w.conversation(&w.builder.api, &conversation).await;
    let read: beepgrid::Conversation = serde_json::from_value(shown.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), shown);
    for delivery in w.billing.lease(10).await {
        let read: beepgrid::Delivery = serde_json::from_value(delivery.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), delivery);
    }
    let me = w.builder.api.get("/me").await.ok();
    let read: beepgrid::Me = serde_json::from_value(me.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), me);
    let workspace = w.builder.api.get("/workspace").await.ok();
    let read: beepgrid::Workspace = serde_json::from_value(workspace.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), workspace);
    for credential in w.owner.api.get("/credentials").await.ok().as_array().unwrap() {
        let read: beepgrid::Credential = serde_json::from_value(credential.clone()).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), *credential);
    }
}
