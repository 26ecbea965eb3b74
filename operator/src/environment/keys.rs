//! The keys that an Environment trusts, from what its spec, its class and their ConfigMaps say. Pure.

use std::collections::BTreeMap;

use cuddy_crds::conditions::reasons;
use cuddy_crds::defaults::{KeyPlace, KeySettings};
use cuddy_crds::v1alpha1::AuthMode;
use cuddy_crds::{labels, public_key};
use cuddy_edge::keys as ed25519;
use cuddy_protocol::anchor::TrustedKey;
use k8s_openapi::api::core::v1::ConfigMap;

use super::outcome::Blocker;

/// Which thumbprints came from which entry, by the entry's id.
pub(super) type Sources = BTreeMap<String, Vec<String>>;

/// The keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySet {
    /// What the sidecar is to trust. An entry that cannot be read keeps what it gave before.
    pub keys: Vec<TrustedKey>,
    /// Where each came from.
    pub sources: Sources,
    /// What is wrong; the first of it.
    pub problem: Option<Blocker>,
}

/// What was trusted before: keys that an unreadable entry gave stay in force.
#[derive(Debug, Clone, Default)]
pub struct Before {
    /// The keys of the anchor.
    pub keys: Vec<TrustedKey>,
    /// Where each came from.
    pub sources: Sources,
}

/// Resolves all entries. Nothing of a value that is no key is ever told: it may be a private key.
pub(super) fn resolve(
    mode: AuthMode,
    settings: &[KeySettings],
    config_map: impl Fn(&str) -> Option<ConfigMap>,
    before: &Before,
) -> KeySet {
    let mut set = KeySet { keys: Vec::new(), sources: Sources::new(), problem: None };
    for entry in settings {
        match read(entry, &config_map) {
            Ok(key) => set.add(&entry.id, key),
            Err(problem) => {
                for key in kept(before, &entry.id) {
                    set.add(&entry.id, key);
                }
                set.problem.get_or_insert(problem);
            }
        }
    }
    if set.keys.is_empty() && set.problem.is_none() && mode == AuthMode::Bearer {
        set.problem = Some(Blocker::new(
            reasons::NO_KEYS,
            "no key is trusted, so that nobody could call: put one into spec.auth.keys (`cuddy key show` prints yours) or into the class",
        ));
    }
    set
}

impl KeySet {
    /// Says whether a pod may be started: somebody can get in, or nobody has to show a key.
    pub fn may_start(&self, mode: AuthMode) -> bool {
        mode == AuthMode::None || !self.keys.is_empty()
    }

    fn add(&mut self, id: &str, key: TrustedKey) {
        self.sources.entry(id.to_owned()).or_default().push(key.kid.clone());
        // The first one counts: the Environment's own entries come before the class's.
        if !self.keys.iter().any(|other| other.kid == key.kid && other.issuer == key.issuer) {
            self.keys.push(key);
        }
    }
}

fn kept(before: &Before, id: &str) -> Vec<TrustedKey> {
    let kids = before.sources.get(id).map(Vec::as_slice).unwrap_or_default();
    before.keys.iter().filter(|key| kids.contains(&key.kid)).cloned().collect()
}

fn read(entry: &KeySettings, config_map: &impl Fn(&str) -> Option<ConfigMap>) -> Result<TrustedKey, Blocker> {
    let text = match &entry.source {
        KeyPlace::Inline(text) => text.clone(),
        KeyPlace::ConfigMap(reference) => {
            let (name, key) = (&reference.name, &reference.key);
            // Only labelled ones are watched: one without the label looks as one that does not exist.
            let map = config_map(name).ok_or_else(|| {
                missing(format!(
                    "{}: ConfigMap {name} does not exist or does not carry the label {}; `kubectl label configmap {name} {}=trusted` lends it",
                    entry.path,
                    labels::KEYS,
                    labels::KEYS
                ))
            })?;
            let data = map.data.unwrap_or_default();
            data.get(key)
                .cloned()
                .ok_or_else(|| missing(format!("{}: ConfigMap {name} has no entry {key}", entry.path)))?
        }
    };
    let place = match &entry.source {
        KeyPlace::Inline(_) => entry.path.clone(),
        KeyPlace::ConfigMap(reference) => {
            format!("{}: entry {} of ConfigMap {}", entry.path, reference.key, reference.name)
        }
    };
    let bad = |why: String| Blocker::new(reasons::BAD_KEY, format!("{place}: {why}"));
    let pem = public_key::canonical(&text).map_err(|error| bad(error.to_string()))?;
    let key = ed25519::public_from_pem(&pem)
        .map_err(|_| bad("it is not a point of Ed25519 that can be trusted".to_owned()))?;
    Ok(TrustedKey {
        kid: ed25519::thumbprint(&key),
        issuer: entry.issuer.clone(),
        public_key: pem,
        max_capability: entry.max_capability,
        not_after: entry.not_after.as_ref().map(|time| time.0.to_string()),
    })
}

fn missing(message: String) -> Blocker {
    Blocker::new(reasons::KEY_SOURCE_MISSING, message)
}

#[cfg(test)]
mod tests {
    use cuddy_crds::v1alpha1::ConfigMapKeyRef;
    use cuddy_protocol::Capability;
    use serde_json::json;

    use super::*;

    fn pem() -> String {
        ed25519::public_to_pem(&ed25519::generate().unwrap().verifying_key()).unwrap()
    }

    fn entry(id: &str, source: KeyPlace) -> KeySettings {
        KeySettings {
            path: format!("spec.auth.keys[{id}]"),
            id: id.to_owned(),
            source,
            issuer: "i".to_owned(),
            max_capability: Capability::Admin,
            not_after: None,
        }
    }

    fn inline(id: &str, pem: &str) -> KeySettings {
        entry(id, KeyPlace::Inline(pem.to_owned()))
    }

    fn from_map(id: &str) -> KeySettings {
        entry(id, KeyPlace::ConfigMap(ConfigMapKeyRef { name: "keys".into(), key: "ci.pub".into() }))
    }

    fn map(value: Option<&str>) -> impl Fn(&str) -> Option<ConfigMap> {
        let map = value.map(|text| serde_json::from_value(json!({"data": {"ci.pub": text}})).unwrap());
        move |name| if name == "keys" { map.clone() } else { None }
    }

    fn resolved(entries: &[KeySettings], value: Option<&str>, before: &Before) -> KeySet {
        resolve(AuthMode::Bearer, entries, map(value), before)
    }

    #[test]
    fn keys_come_from_the_spec_and_from_config_maps() {
        let (a, b) = (pem(), pem());
        let set =
            resolved(&[inline("a", &a), from_map("b")], Some(&b.replace('\n', "\r\n")), &Before::default());
        assert_eq!(set.problem, None);
        assert_eq!(set.keys.iter().map(|key| key.public_key.as_str()).collect::<Vec<_>>(), [a.as_str(), &b]);
        assert_eq!(set.sources["b"], [set.keys[1].kid.clone()]);
        assert_eq!(set.keys[0].kid.len(), 43);
    }

    #[test]
    fn the_same_key_twice_is_one_key_with_the_first_ones_bounds() {
        let a = pem();
        let narrow = KeySettings { max_capability: Capability::Read, ..inline("class/a", &a) };
        let set = resolved(&[inline("environment/a", &a), narrow], None, &Before::default());
        assert_eq!(set.keys.len(), 1);
        assert_eq!(set.keys[0].max_capability, Capability::Admin);
        assert_eq!(set.sources.len(), 2);
    }

    #[test]
    fn a_bad_reference_is_named_and_nothing_of_its_value_is() {
        for (value, reason, words) in [
            (None, reasons::KEY_SOURCE_MISSING, "kubectl label configmap keys"),
            (Some("secret-canary"), reasons::BAD_KEY, "entry ci.pub of ConfigMap keys"),
            (
                Some("-----BEGIN PRIVATE KEY-----\nsecret-canary\n-----END PRIVATE KEY-----"),
                reasons::BAD_KEY,
                "private key",
            ),
        ] {
            let set = resolved(&[from_map("b")], value, &Before::default());
            let problem = set.problem.clone().unwrap();
            assert_eq!(problem.reason, reason);
            assert!(problem.message.contains(words), "{problem:?}");
            assert!(!format!("{set:?}").contains("canary"));
            assert!(!set.may_start(AuthMode::Bearer));
        }
        let elsewhere = resolve(
            AuthMode::Bearer,
            &[from_map("b")],
            |_| Some(serde_json::from_value(json!({"data": {"other": "x"}})).unwrap()),
            &Before::default(),
        );
        assert!(elsewhere.problem.unwrap().message.contains("has no entry ci.pub"));
    }

    #[test]
    fn a_bad_reference_keeps_the_last_good_keys_and_a_removed_one_does_not() {
        let (a, b) = (pem(), pem());
        let entries = [inline("a", &a), from_map("b")];
        let good = resolved(&entries, Some(&b), &Before::default());
        let before = Before { keys: good.keys.clone(), sources: good.sources.clone() };
        let broken = resolved(&entries, Some("junk"), &before);
        assert_eq!(broken.keys, good.keys);
        assert_eq!(broken.sources, good.sources, "and it stays so the next time");
        assert_eq!(broken.problem.as_ref().unwrap().reason, reasons::BAD_KEY);
        let removed = resolved(&entries[..1], Some("junk"), &before);
        assert_eq!((removed.keys.len(), removed.problem), (1, None));
    }

    #[test]
    fn no_key_at_all_is_a_problem_unless_none_is_asked_for() {
        let none = resolved(&[], None, &Before::default());
        assert_eq!(none.problem.as_ref().unwrap().reason, reasons::NO_KEYS);
        let open = resolve(AuthMode::None, &[], map(None), &Before::default());
        assert_eq!(open.problem, None);
        assert!(open.may_start(AuthMode::None));
    }

    #[test]
    fn keys_of_small_order_are_refused() {
        // The neutral element: with it anybody could sign.
        let weak = "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAAQAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=\n-----END PUBLIC KEY-----\n";
        let set = resolved(&[inline("a", weak)], None, &Before::default());
        assert_eq!(set.problem.unwrap().reason, reasons::BAD_KEY);
    }
}
