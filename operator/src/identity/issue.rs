//! Certificates: the CA's own and the sidecars'.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cuddy_protocol::places::server_name;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType,
};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, RootCertStore};
use secrecy::SecretString;

use super::IdentityError;

/// How long the CA is good for.
const CA_DAYS: i64 = 3653;
/// How long a sidecar's certificate is good for. Its pod is made anew long before.
const SERVING_DAYS: i64 = 365;
/// How far back certificates begin: clocks of nodes and laptops may be behind, and rcgen's dates are whole days.
const BACKDATED_DAYS: i64 = 1;
/// The CA's name. Issued certificates name it, so it must not change while an old CA may be in use.
const CA_NAME: &str = "Cuddy operator CA";

/// A sidecar's certificate and its private key.
pub struct ServingCertificate {
    /// The certificate, PEM.
    pub cert_pem: String,
    /// The private key, PEM (PKCS#8).
    pub key_pem: SecretString,
    /// The day on which the certificate ends, at midnight UTC.
    pub not_after: Timestamp,
}

impl fmt::Debug for ServingCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServingCertificate").field("not_after", &self.not_after).finish_non_exhaustive()
    }
}

/// Makes a CA: its issuer and its certificate in PEM.
pub(super) fn new_ca(now: Timestamp) -> Result<(Issuer<'static, KeyPair>, String), IdentityError> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(IdentityError::Generate)?;
    let mut params = ca_params();
    set_validity(&mut params, now, CA_DAYS);
    let certificate = params.self_signed(&key).map_err(IdentityError::Generate)?;
    Ok((Issuer::new(params, key), certificate.pem()))
}

/// Returns the issuer of an existing CA. That the certificate belongs to the key is checked by [`vouches`].
pub(super) fn ca_from_key(key_pem: &str) -> Result<Issuer<'static, KeyPair>, IdentityError> {
    let key = KeyPair::from_pkcs8_pem_and_sign_algo(key_pem, &PKCS_ECDSA_P256_SHA256)
        .map_err(|_| IdentityError::CaKey)?;
    Ok(Issuer::new(ca_params(), key))
}

/// Issues a sidecar's certificate with a new key.
pub(super) fn serving(
    ca: &Issuer<'static, KeyPair>,
    environment_uid: &str,
    extra_names: &[String],
    now: Timestamp,
) -> Result<ServingCertificate, IdentityError> {
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(IdentityError::Generate)?;
    let mut params = CertificateParams::default();
    let own_name = server_name(environment_uid);
    params.subject_alt_names = std::iter::once(own_name.as_str())
        .chain(extra_names.iter().map(String::as_str))
        .map(dns_name)
        .collect::<Result<_, _>>()?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, own_name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, now, SERVING_DAYS);
    let certificate = params.signed_by(&key, ca).map_err(IdentityError::Issue)?;
    Ok(ServingCertificate {
        cert_pem: certificate.pem(),
        key_pem: SecretString::from(key.serialize_pem()),
        not_after: days_from(now, SERVING_DAYS),
    })
}

/// Says why a certificate that the issuer signs would not be taken by somebody who trusts `ca_pem`, at a given time.
/// Proved by doing it: a certificate is issued and checked the way that every client will.
pub(super) fn vouches(ca: &Issuer<'static, KeyPair>, ca_pem: &str, at: Timestamp) -> Result<(), String> {
    const PROBE: &str = "self-check";
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    let ca_certificate = CertificateDer::from_pem_slice(ca_pem.as_bytes())
        .map_err(|_| "there is no certificate in PEM".to_owned())?;
    roots.add(ca_certificate.clone()).map_err(|e| e.to_string())?;
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|e| e.to_string())?;
    let probe = serving(ca, PROBE, &[], at).map_err(|e| e.to_string())?;
    let leaf = CertificateDer::from_pem_slice(probe.cert_pem.as_bytes()).map_err(|e| e.to_string())?;
    let name = ServerName::try_from(server_name(PROBE)).map_err(|e| e.to_string())?;
    let seconds = u64::try_from(at.as_second()).map_err(|_| "a time before 1970".to_owned())?;
    let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    verifier.verify_server_cert(&leaf, &[], &name, &[], at).map_err(|e| e.to_string())?;
    // rustls asks no anchor for its dates, other clients do. As a leaf the CA is refused in any case, for its dates first.
    match verifier.verify_server_cert(&ca_certificate, &[], &name, &[], at) {
        Err(rustls::Error::InvalidCertificate(
            error @ (CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. }),
        )) => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// What is fixed about the CA: issued certificates name it and point at its key.
fn ca_params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, CA_NAME);
    // It signs sidecars' certificates and no further CA.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn dns_name(name: &str) -> Result<SanType, IdentityError> {
    // rcgen takes any ASCII; a verifier does not.
    let valid = matches!(ServerName::try_from(name), Ok(ServerName::DnsName(_)));
    match (valid, name.try_into()) {
        (true, Ok(text)) => Ok(SanType::DnsName(text)),
        _ => Err(IdentityError::Name(name.to_owned())),
    }
}

fn set_validity(params: &mut CertificateParams, now: Timestamp, days: i64) {
    let day = |offset| {
        let date = days_from(now, offset).to_zoned(TimeZone::UTC).date();
        rcgen::date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    params.not_before = day(-BACKDATED_DAYS);
    params.not_after = day(days);
}

/// Returns the midnight (UTC) that begins the day so many days from now.
fn days_from(now: Timestamp, days: i64) -> Timestamp {
    let date = now.to_zoned(TimeZone::UTC).date();
    let then = date.checked_add(Span::new().days(days)).unwrap_or(date);
    then.to_zoned(TimeZone::UTC).map_or(now, |zoned| zoned.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn a_ca_vouches_from_the_day_before_for_ten_years() {
        let made = at("2026-02-28T23:59:59Z");
        let (ca, pem) = new_ca(made).unwrap();
        for (when, good) in [
            ("2026-02-26T23:59:59Z", false),
            ("2026-02-27T00:00:00Z", true),
            ("2036-02-27T00:00:00Z", true),
            ("2036-03-01T00:00:01Z", false),
        ] {
            assert_eq!(
                vouches(&ca, &pem, at(when)).is_ok(),
                good,
                "{when}: {:?}",
                vouches(&ca, &pem, at(when))
            );
        }
    }

    #[test]
    fn a_serving_certificate_is_for_its_names_and_one_year() {
        let now = at("2026-03-01T12:00:00Z");
        let (ca, ca_pem) = new_ca(now).unwrap();
        let names = ["dev.team.svc".to_owned(), "dev.team.svc.cluster.local".to_owned()];
        let certificate = serving(&ca, "u-1", &names, now).unwrap();
        assert_eq!(certificate.not_after, at("2027-03-01T00:00:00Z"));
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(ca_pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build().unwrap();
        let leaf = CertificateDer::from_pem_slice(certificate.cert_pem.as_bytes()).unwrap();
        let verify = |name: &str, when: &str| {
            let when = at(when).as_second().unsigned_abs();
            let when = UnixTime::since_unix_epoch(Duration::from_secs(when));
            let name = ServerName::try_from(name.to_owned()).unwrap();
            verifier.verify_server_cert(&leaf, &[], &name, &[], when).is_ok()
        };
        for name in ["u-1.env.cuddy.internal", "dev.team.svc", "dev.team.svc.cluster.local"] {
            assert!(verify(name, "2026-03-01T12:00:00Z"), "{name}");
        }
        for name in ["u-2.env.cuddy.internal", "env.cuddy.internal", "dev.other.svc"] {
            assert!(!verify(name, "2026-03-01T12:00:00Z"), "{name}");
        }
        assert!(verify("u-1.env.cuddy.internal", "2027-02-28T23:59:59Z"));
        assert!(!verify("u-1.env.cuddy.internal", "2027-03-01T00:00:01Z"));
    }

    #[test]
    fn names_that_are_no_dns_names_are_refused() {
        let (ca, _) = new_ca(Timestamp::now()).unwrap();
        for bad in ["", "a b", "10.0.0.1", "é.example", "a..b"] {
            let result = serving(&ca, "u-1", &[bad.to_owned()], Timestamp::now());
            assert!(matches!(result, Err(IdentityError::Name(_))), "{bad:?}");
        }
    }
}
