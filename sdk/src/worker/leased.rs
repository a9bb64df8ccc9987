//! What one lease brought, delivery by delivery.

use std::fmt;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::model::{Delivery, DeliveryId};

/// One leased delivery, decoded on its own.
#[derive(Debug)]
pub enum Leased {
    /// A delivery to handle.
    Delivery(Box<Delivery>),
    /// One that this version can't read. Don't acknowledge it: the engine brings it again, ever later, and parks it in the end.
    Undecodable(UndecodableDelivery),
}

/// A delivery that can't be read: not the expected members, a number that does not fit, half a surrogate pair.
#[derive(Debug)]
#[non_exhaustive]
pub struct UndecodableDelivery {
    /// Its id, if that much could be read.
    pub id: Option<DeliveryId>,
    /// Its lease's number, if that much could be read.
    pub generation: Option<i64>,
    error: serde_json::Error,
}

/// The two members that are looked for when the rest can't be read.
#[derive(Deserialize)]
struct Label {
    id: DeliveryId,
    generation: i64,
}

impl Leased {
    pub(crate) fn decode(body: &[u8]) -> serde_json::Result<Vec<Self>> {
        let items: Vec<Box<RawValue>> = serde_json::from_slice(body)?;
        Ok(items.iter().map(|item| Self::decode_one(item.get())).collect())
    }

    fn decode_one(text: &str) -> Self {
        match serde_json::from_str::<Delivery>(text) {
            Ok(delivery) => Self::Delivery(Box::new(delivery)),
            Err(error) => {
                let label = serde_json::from_str::<Label>(text).ok();
                let (id, generation) = label.map(|label| (label.id, label.generation)).unzip();
                Self::Undecodable(UndecodableDelivery { id, generation, error })
            }
        }
    }
}

impl fmt::Display for UndecodableDelivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.id {
            Some(id) => write!(f, "delivery {id} can't be read"),
            None => f.write_str("a delivery without a readable id can't be read"),
        }
    }
}

impl std::error::Error for UndecodableDelivery {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"id":"dlv_2","generation":1,"payload":{"type":"message","conversation_id":"cnv_1"}}"#;

    fn decode(first: &str) -> Vec<Leased> {
        Leased::decode(format!("[{first},{GOOD}]").as_bytes()).unwrap()
    }

    #[test]
    fn half_a_surrogate_pair_spoils_one_delivery_and_not_its_neighbours() {
        for half in ["\\ud83d", "\\ude00", "\\ud83d\\ud83d"] {
            let bad = format!(
                r#"{{"id":"dlv_1","generation":3,"payload":{{"type":"message","conversation_id":"cnv_1","message":{{"id":"msg_1","conversation_id":"cnv_1","body":"{half}","sender_id":"agt_1"}}}}}}"#
            );
            let items = decode(&bad);
            assert!(
                matches!(&items[..], [Leased::Undecodable(lost), Leased::Delivery(_)]
                    if lost.id == Some(DeliveryId::new("dlv_1")) && lost.generation == Some(3)),
                "{items:?}"
            );
        }
    }

    #[test]
    fn a_generation_must_be_an_integer_that_fits() {
        for (number, fits) in [
            ("9007199254740993", true),
            ("9223372036854775807", true),
            ("9223372036854775808", false),
            ("1.0", false),
            ("1e3", false),
            ("\"1\"", false),
        ] {
            let items = decode(&GOOD.replace("\"generation\":1", &format!("\"generation\":{number}")));
            match items.first().unwrap() {
                Leased::Delivery(delivery) => assert_eq!(delivery.generation.to_string(), number),
                Leased::Undecodable(_) => assert!(!fits, "{number}"),
            }
        }
    }

    #[test]
    fn an_unknown_kind_is_delivered_as_it_came() {
        let items = decode(&GOOD.replace("message", "poll_result"));
        let Leased::Delivery(delivery) = items.first().unwrap() else { panic!("{items:?}") };
        assert_eq!(delivery.payload.r#type.as_str(), "poll_result");
    }
}
