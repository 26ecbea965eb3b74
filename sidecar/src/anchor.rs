//! The trust anchor: read once from its folder, replaced while running by the operator's pushes, never falling open (D36).
//!
//! The highest generation ever in force is kept on the volume. A set older than that, as an attacker could bring back by
//! restoring an old Secret, is not trusted: the doors stay closed until the operator pushes.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cuddy_edge::bearer::{Trust, TrustError, TrustedSet};
use cuddy_edge::server::{self, TlsError};
use cuddy_protocol::anchor::{
    ANCHOR_FILE, ANCHOR_VERSION, AnchorDocument, ControlKeys, TLS_CERT_FILE, TLS_KEY_FILE,
};
use cuddy_protocol::control::{AnchorLoaded, AnchorPush};
use cuddy_protocol::{EnvironmentName, Scope, TenantName};
use parking_lot::Mutex;
use serde::Deserialize;

use crate::store::{Loaded, Store, StoreError};

/// The largest file of an anchor, in bytes: what a Secret may hold.
const MAX_FILE: u64 = 1024 * 1024;
/// The file of the highest generation within the state folder.
const GENERATION_FILE: &str = "anchor-generation.json";
/// The version of that file.
const GENERATION_VERSION: u32 = 1;

/// Why there is no anchor.
#[derive(Debug, thiserror::Error)]
pub enum AnchorError {
    /// A file cannot be read.
    #[error("read {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The document is of another version.
    #[error("understand {ANCHOR_FILE} of version {0}")]
    Version(u32),
    /// The document cannot be understood. The parser's words could quote it, so they are left out.
    #[error("understand {ANCHOR_FILE}, line {line}, column {column}")]
    Document {
        /// Where.
        line: usize,
        /// Where.
        column: usize,
    },
    /// The serving certificate cannot be used.
    #[error("use the serving certificate")]
    Tls(#[from] TlsError),
}

/// Why a push is refused. What was in force stays.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// A later set has been in force.
    #[error("the generation {pushed} is older than {highest}, which has been in force")]
    Older {
        /// The generation pushed.
        pushed: u64,
        /// The highest.
        highest: u64,
    },
    /// The keys are no keys.
    #[error("the keys are refused")]
    Keys(#[from] TrustError),
    /// The generation cannot be kept, so a restart could bring an older set back.
    #[error("the generation cannot be kept")]
    Store(#[from] StoreError),
}

/// The anchor's folder, read.
#[derive(Debug)]
pub struct AnchorFolder {
    /// The document.
    pub document: AnchorDocument,
    /// What the listeners serve with.
    pub tls: Arc<rustls::ServerConfig>,
}

#[derive(Deserialize)]
struct Version {
    version: u32,
}

impl AnchorFolder {
    /// Reads the folder. Blocks.
    pub fn read(folder: &Path) -> Result<Self, AnchorError> {
        let bytes = read(&folder.join(ANCHOR_FILE))?;
        let bad = |e: serde_json::Error| AnchorError::Document { line: e.line(), column: e.column() };
        let Version { version } = serde_json::from_slice(&bytes).map_err(bad)?;
        if version != ANCHOR_VERSION {
            return Err(AnchorError::Version(version));
        }
        let document = serde_json::from_slice(&bytes).map_err(bad)?;
        let tls =
            server::server_config(&read(&folder.join(TLS_CERT_FILE))?, &read(&folder.join(TLS_KEY_FILE))?)?;
        Ok(Self { document, tls })
    }
}

fn read(path: &Path) -> Result<Vec<u8>, AnchorError> {
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_FILE).read_to_end(&mut bytes))
        .map_err(|source| AnchorError::Read { path: path.to_owned(), source })?;
    Ok(bytes)
}

#[derive(Debug)]
struct Standing {
    /// The highest generation that has been in force.
    highest: u64,
    /// Whether no set can be trusted until the operator pushes one.
    closed: bool,
}

/// The anchor in force.
#[derive(Debug)]
pub struct Anchor {
    trust: Arc<Trust>,
    tenant: TenantName,
    environment: EnvironmentName,
    environment_uid: String,
    control: ControlKeys,
    store: Store,
    standing: Mutex<Standing>,
}

impl Anchor {
    /// Puts a document in force, unless it is older than one that has been, or a key of it is none: then nobody is
    /// trusted until the operator pushes. Blocks.
    pub fn load(document: AnchorDocument, state_dir: &Path) -> Self {
        let store = Store::new(state_dir.join(GENERATION_FILE), GENERATION_VERSION);
        let AnchorDocument { generation, environment_uid, audience, keys, .. } = document;
        let (highest, known) = match store.load::<u64>() {
            Ok(Loaded::Absent) => (0, true),
            Ok(Loaded::Good(highest)) => (highest, true),
            other => {
                // Fail closed: which set is too old cannot be told. The operator's next push is at least this one.
                tracing::error!(?other, path = %store.path().display(), "the highest generation is not known");
                (generation, false)
            }
        };
        let parsed = TrustedSet::parse(generation, audience.clone(), environment_uid.clone(), &keys);
        let accepted = match parsed {
            _ if generation < highest => {
                tracing::error!(
                    generation,
                    highest,
                    "the anchor is older than one that was in force: closed"
                );
                None
            }
            _ if !known => None,
            Err(error) => {
                tracing::error!(error = crate::text::chain(&error), "the anchor's keys are refused: closed");
                None
            }
            Ok(set) => Some(set),
        };
        let closed = accepted.is_none();
        if !closed
            && generation > highest
            && let Err(error) = store.save(&generation)
        {
            tracing::error!(error = crate::text::chain(&error), "the generation is not kept");
        }
        let trust = match accepted {
            Some(set) => Trust::new(set),
            None => Trust::closed(audience, environment_uid.clone()),
        };
        Self {
            trust,
            tenant: document.tenant,
            environment: document.environment,
            environment_uid,
            control: document.control,
            store,
            standing: Mutex::new(Standing {
                highest: highest.max(if closed { 0 } else { generation }),
                closed,
            }),
        }
    }

    /// Puts other keys in force. When it returns, sessions and calls of keys that are gone have ended. Blocks.
    pub fn push(&self, push: &AnchorPush) -> Result<AnchorLoaded, PushError> {
        let mut standing = self.standing.lock();
        if push.generation < standing.highest {
            return Err(PushError::Older { pushed: push.generation, highest: standing.highest });
        }
        let audience = self.trust.current().audience().to_owned();
        let set = TrustedSet::parse(push.generation, audience, self.environment_uid.clone(), &push.keys)?;
        if push.generation > standing.highest || standing.closed {
            self.store.save(&push.generation)?;
        }
        self.trust.replace(set);
        *standing = Standing { highest: push.generation, closed: false };
        drop(standing);
        Ok(self.loaded())
    }

    /// Returns what is in force.
    pub fn loaded(&self) -> AnchorLoaded {
        let current = self.trust.current();
        AnchorLoaded { generation: current.generation(), keys: current.thumbprints() }
    }

    /// Says whether no set can be trusted until the operator pushes one.
    pub fn is_closed(&self) -> bool {
        self.standing.lock().closed
    }

    /// Returns the keys in force.
    pub fn trust(&self) -> &Arc<Trust> {
        &self.trust
    }

    /// Returns the operator's keys.
    pub fn control(&self) -> &ControlKeys {
        &self.control
    }

    /// Returns the Environment's UID.
    pub fn environment_uid(&self) -> &str {
        &self.environment_uid
    }

    /// Returns the environment.
    pub fn scope(&self) -> Scope {
        Scope { tenant: self.tenant.clone(), environment: self.environment.clone() }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use cuddy_edge::keys;
    use cuddy_protocol::Capability;
    use cuddy_protocol::anchor::TrustedKey;
    use cuddy_protocol::claims::DEFAULT_ISSUER;

    use super::*;

    fn key() -> TrustedKey {
        let key = keys::generate().unwrap().verifying_key();
        TrustedKey {
            kid: keys::thumbprint(&key),
            issuer: DEFAULT_ISSUER.to_owned(),
            public_key: keys::public_to_pem(&key).unwrap(),
            max_capability: Capability::Admin,
            not_after: None,
        }
    }

    fn document(generation: u64, keys: Vec<TrustedKey>) -> AnchorDocument {
        AnchorDocument {
            version: ANCHOR_VERSION,
            generation,
            environment_uid: "uid".to_owned(),
            tenant: "t".parse().unwrap(),
            environment: "e".parse().unwrap(),
            audience: "erun-mcp:t/e".to_owned(),
            keys,
            control: ControlKeys { issuer: "op".to_owned(), public_keys: Vec::new() },
        }
    }

    #[test]
    fn an_older_set_is_refused_and_stays_refused() {
        let state = tempfile::tempdir().unwrap();
        assert!(!Anchor::load(document(5, vec![key()]), state.path()).is_closed());
        let anchor = Anchor::load(document(4, vec![key()]), state.path());
        assert!(anchor.is_closed());
        assert_eq!(anchor.loaded(), AnchorLoaded { generation: 0, keys: Vec::new() });
        let old = AnchorPush { generation: 4, keys: vec![key()] };
        assert!(matches!(anchor.push(&old), Err(PushError::Older { pushed: 4, highest: 5 })));
        assert!(anchor.is_closed());
        let fresh = key();
        let loaded = anchor.push(&AnchorPush { generation: 5, keys: vec![fresh.clone()] }).unwrap();
        assert_eq!(loaded, AnchorLoaded { generation: 5, keys: vec![fresh.kid] });
        assert!(!anchor.is_closed());
    }

    #[test]
    fn bad_keys_close_at_the_start_and_change_nothing_later() {
        let state = tempfile::tempdir().unwrap();
        let bad = TrustedKey { public_key: "no key".to_owned(), ..key() };
        let anchor = Anchor::load(document(1, vec![key(), bad.clone()]), state.path());
        assert!(anchor.is_closed() && anchor.loaded().keys.is_empty());
        let good = key();
        anchor.push(&AnchorPush { generation: 1, keys: vec![good.clone()] }).unwrap();
        assert!(matches!(
            anchor.push(&AnchorPush { generation: 2, keys: vec![bad] }),
            Err(PushError::Keys(_))
        ));
        assert_eq!(anchor.loaded(), AnchorLoaded { generation: 1, keys: vec![good.kid] });
    }

    #[test]
    fn a_generation_that_cannot_be_read_closes() {
        let state = tempfile::tempdir().unwrap();
        for text in ["", "{\"version\":1}", "{\"version\":2,\"content\":9}"] {
            fs::write(state.path().join(GENERATION_FILE), text).unwrap();
            let anchor = Anchor::load(document(3, vec![key()]), state.path());
            assert!(anchor.is_closed(), "{text}");
            assert!(anchor.push(&AnchorPush { generation: 2, keys: vec![key()] }).is_err());
            anchor.push(&AnchorPush { generation: 3, keys: vec![key()] }).unwrap();
            assert!(!Anchor::load(document(3, vec![key()]), state.path()).is_closed());
        }
    }

    #[test]
    fn no_keys_are_a_set_of_their_own() {
        let state = tempfile::tempdir().unwrap();
        let anchor = Anchor::load(document(1, Vec::new()), state.path());
        assert!(!anchor.is_closed() && anchor.loaded().keys.is_empty());
    }

    #[test]
    fn a_push_that_cannot_be_kept_is_not_in_force() {
        let state = tempfile::tempdir().unwrap();
        let first = key();
        let anchor = Anchor::load(document(1, vec![first.clone()]), state.path());
        drop(state);
        assert!(matches!(
            anchor.push(&AnchorPush { generation: 2, keys: vec![key()] }),
            Err(PushError::Store(_))
        ));
        assert_eq!(anchor.loaded().keys, [first.kid]);
    }

    #[test]
    fn folders_that_hold_no_anchor_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let said = |folder: &Path| AnchorFolder::read(folder).unwrap_err().to_string();
        assert!(said(folder.path()).contains("anchor.json"));
        let write = |text: &str| fs::write(folder.path().join(ANCHOR_FILE), text).unwrap();
        write("{\"version\":2,\"more\":1}");
        assert!(said(folder.path()).contains("version 2"));
        write("{\"version\":1,\"secret\":\"hush\"}");
        assert!(said(folder.path()).contains("line 1") && !said(folder.path()).contains("hush"));
        write(&serde_json::to_string(&document(1, Vec::new())).unwrap());
        assert!(said(folder.path()).contains("tls.crt"));
        fs::write(folder.path().join(TLS_CERT_FILE), "x").unwrap();
        fs::write(folder.path().join(TLS_KEY_FILE), "x").unwrap();
        assert!(matches!(AnchorFolder::read(folder.path()), Err(AnchorError::Tls(_))));
    }
}
