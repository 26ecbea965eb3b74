//! JSON whose members keep their order: for files that people wrote, of which one entry is changed.

use std::fmt;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ordered {
    /// An object.
    Object(Vec<(String, Self)>),
    /// A list.
    List(Vec<Self>),
    /// Anything else.
    Leaf(serde_json::Value),
}

impl Ordered {
    /// Returns an object without members.
    pub(crate) const fn object() -> Self {
        Self::Object(Vec::new())
    }

    /// Sets a member of a member, both made where they are missing; false if the outer one is something else.
    pub(crate) fn set(&mut self, outer: &str, inner: &str, value: Self) -> bool {
        let Self::Object(members) = self else { return false };
        let group = member(members, outer, Self::object);
        let Self::Object(members) = group else { return false };
        *member(members, inner, Self::object) = value;
        true
    }
}

impl From<serde_json::Value> for Ordered {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Object(members) => {
                Self::Object(members.into_iter().map(|(name, value)| (name, value.into())).collect())
            }
            serde_json::Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            leaf => Self::Leaf(leaf),
        }
    }
}

fn member<'m>(members: &'m mut Vec<(String, Ordered)>, name: &str, make: fn() -> Ordered) -> &'m mut Ordered {
    let place = members.iter().position(|(n, _)| n == name).unwrap_or_else(|| {
        members.push((name.to_owned(), make()));
        members.len() - 1
    });
    &mut members[place].1
}

impl Serialize for Ordered {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(members) => {
                let mut map = serializer.serialize_map(Some(members.len()))?;
                for (name, value) in members {
                    map.serialize_entry(name, value)?;
                }
                map.end()
            }
            Self::List(items) => {
                let mut list = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    list.serialize_element(item)?;
                }
                list.end()
            }
            Self::Leaf(value) => value.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyValue;

        impl<'de> Visitor<'de> for AnyValue {
            type Value = Ordered;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut members = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    members.push(entry);
                }
                Ok(Ordered::Object(members))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Ordered, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = list.next_element()? {
                    items.push(item);
                }
                Ok(Ordered::List(items))
            }

            fn visit_bool<E>(self, value: bool) -> Result<Ordered, E> {
                Ok(Ordered::Leaf(value.into()))
            }

            fn visit_i64<E>(self, value: i64) -> Result<Ordered, E> {
                Ok(Ordered::Leaf(value.into()))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Ordered, E> {
                Ok(Ordered::Leaf(value.into()))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Ordered, E> {
                Ok(Ordered::Leaf(value.into()))
            }

            fn visit_str<E>(self, value: &str) -> Result<Ordered, E> {
                Ok(Ordered::Leaf(value.into()))
            }

            fn visit_unit<E>(self) -> Result<Ordered, E> {
                Ok(Ordered::Leaf(serde_json::Value::Null))
            }
        }

        deserializer.deserialize_any(AnyValue)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_members_survives() {
        let text = r#"{"z":1,"a":[true,null,-2,0.5,"x"],"servers":{"other":{"url":"u","a":1}}}"#;
        let mut value: Ordered = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&value).unwrap(), text);
        assert!(value.set("servers", "mine", json!({ "type": "stdio" }).into()));
        assert!(value.set("new", "mine", json!(1).into()));
        assert!(!value.set("z", "mine", json!(1).into()), "a member that is no object is not replaced");
        assert_eq!(
            serde_json::to_string(&value).unwrap(),
            r#"{"z":1,"a":[true,null,-2,0.5,"x"],"servers":{"other":{"url":"u","a":1},"mine":{"type":"stdio"}},"new":{"mine":1}}"#
        );
    }
}
