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
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
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
    params.subject_alt_names =
        std::iter::once(&own_name).chain(extra_names).map(dns_name).collect::<Result<_, _>>()?;
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
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        let certificate = certificate.map_err(|_| "no certificate in PEM".to_owned())?;
        roots.add(certificate).map_err(|e| e.to_string())?;
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider)
        .build()
        .map_err(|e| e.to_string())?;
    let probe = serving(ca, PROBE, &[], at).map_err(|e| e.to_string())?;
    let leaf = CertificateDer::from_pem_slice(probe.cert_pem.as_bytes()).map_err(|e| e.to_string())?;
    let name = ServerName::try_from(server_name(PROBE)).map_err(|e| e.to_string())?;
    let seconds = u64::try_from(at.as_second()).map_err(|_| "a time before 1970".to_owned())?;
    let at = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    verifier.verify_server_cert(&leaf, &[], &name, &[], at).map(|_| ()).map_err(|e| e.to_string())
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

fn dns_name(name: &String) -> Result<SanType, IdentityError> {
    // rcgen takes any ASCII; a verifier does not.
    let valid = matches!(ServerName::try_from(name.as_str()), Ok(ServerName::DnsName(_)));
    match (valid, name.as_str().try_into()) {
        (true, Ok(text)) => Ok(SanType::DnsName(text)),
        _ => Err(IdentityError::Name(name.clone())),
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
