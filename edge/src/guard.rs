//! What is looked at before anything is read: the name by which a request came, and the page that sent it (DNS rebinding).

use std::collections::HashSet;

use http::header::{HOST, ORIGIN};
use http::{HeaderMap, Uri};

/// The names of this machine itself, which are always allowed: a port-forward comes by them.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// The names by which requests may come.
#[derive(Debug)]
pub(crate) struct Hosts(HashSet<String>);

impl Hosts {
    pub(crate) fn new(names: &[String]) -> Self {
        let names = names.iter().map(|n| n.trim().to_ascii_lowercase()).filter(|n| !n.is_empty());
        Self(names.chain(LOOPBACK.map(str::to_owned)).collect())
    }

    /// Checks a request, and says in fixed words what is wrong with it.
    pub(crate) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), &'static str> {
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|value| value.to_str().ok());
        if hosts.next().is_some() || !host.is_some_and(|host| self.allows(host)) {
            return Err("host not allowed");
        }
        // A target in the absolute form overrides the header.
        if uri.authority().is_some_and(|authority| !self.allows(authority.as_str())) {
            return Err("host not allowed");
        }
        let mut origins = headers.get_all(ORIGIN).iter();
        match (origins.next(), origins.next()) {
            (None, _) => Ok(()),
            (Some(origin), None) if origin.to_str().is_ok_and(|o| self.allows_origin(o)) => Ok(()),
            _ => Err("origin not allowed"),
        }
    }

    fn allows_origin(&self, origin: &str) -> bool {
        let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        host.is_some_and(|host| self.allows(host))
    }

    /// Says whether `host[:port]` is allowed; a name is, with any port.
    fn allows(&self, authority: &str) -> bool {
        let name = match authority.rsplit_once(':') {
            Some((name, port)) if port.len() <= 5 && port.bytes().all(|b| b.is_ascii_digit()) => name,
            _ => authority,
        };
        self.0.contains(&name.to_ascii_lowercase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(host: Option<&str>, origin: Option<&str>) -> Result<(), &'static str> {
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(HOST, host.parse().unwrap());
        }
        if let Some(origin) = origin {
            headers.insert(ORIGIN, origin.parse().unwrap());
        }
        Hosts::new(&["Env.Example".to_owned()]).check(&Uri::from_static("/mcp"), &headers)
    }

    #[test]
    fn names_of_this_machine_and_listed_ones_pass() {
        for host in ["127.0.0.1:17000", "localhost", "LOCALHOST:1", "[::1]:5", "[::1]", "env.example:443"] {
            assert_eq!(check(Some(host), None), Ok(()), "{host}");
            assert_eq!(check(Some(host), Some(&format!("http://{host}"))), Ok(()), "{host}");
        }
    }

    #[test]
    fn other_names_are_refused() {
        for host in [
            "evil.com",
            "localhost.evil.com",
            "127.0.0.1@evil.com",
            "127.0.0.1:80@evil.com",
            "localhost.",
            "",
            ":80",
            "[::1",
            "localhost:80:80",
            "127.0.0.1.nip.io",
        ] {
            assert_eq!(check(Some(host), None), Err("host not allowed"), "{host}");
        }
        assert_eq!(check(None, None), Err("host not allowed"));
    }

    #[test]
    fn other_pages_are_refused() {
        for origin in ["null", "http://evil.com", "https://localhost.evil.com", "file://", "localhost", ""] {
            assert_eq!(check(Some("localhost"), Some(origin)), Err("origin not allowed"), "{origin}");
        }
    }

    #[test]
    fn two_headers_and_absolute_targets_are_no_way_round() {
        let hosts = Hosts::new(&[]);
        let mut headers = HeaderMap::new();
        headers.append(HOST, "localhost".parse().unwrap());
        assert!(hosts.check(&Uri::from_static("http://evil.com/mcp"), &headers).is_err());
        headers.append(HOST, "evil.com".parse().unwrap());
        assert!(hosts.check(&Uri::from_static("/mcp"), &headers).is_err());
    }
}
