//! A range of addresses.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// Why a text is no range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CidrError {
    /// The text is not `address/prefix`.
    #[error("{0:?} is not of the form address/prefix")]
    Form(String),
    /// The address has bits set behind the prefix: most likely a typing error, and API servers refuse it.
    #[error("{0:?} has bits set behind its prefix")]
    HostBits(String),
}

/// A range in CIDR form (RFC 4632), without bits behind the prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// Returns the range of a single address.
    pub const fn single(address: IpAddr) -> Self {
        let prefix = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        Self { address, prefix }
    }

    /// Says whether the range holds IPv6 addresses.
    pub const fn is_ipv6(self) -> bool {
        self.address.is_ipv6()
    }

    /// Says whether an address lies within.
    pub fn contains(self, address: IpAddr) -> bool {
        self.is_ipv6() == address.is_ipv6() && masked(bits(address), self.prefix) == bits(self.address)
    }

    /// Says whether the other range lies within.
    pub fn includes(self, other: Self) -> bool {
        self.prefix <= other.prefix && self.contains(other.address)
    }

    /// Says whether the two ranges share an address.
    pub fn overlaps(self, other: Self) -> bool {
        self.includes(other) || other.includes(self)
    }
}

impl FromStr for Cidr {
    type Err = CidrError;
    fn from_str(text: &str) -> Result<Self, CidrError> {
        let form = || CidrError::Form(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(form)?;
        let address: IpAddr = address.parse().map_err(|_| form())?;
        let prefix: u8 = prefix.parse().map_err(|_| form())?;
        if prefix > Self::single(address).prefix {
            return Err(form());
        }
        if masked(bits(address), prefix) != bits(address) {
            return Err(CidrError::HostBits(text.to_owned()));
        }
        Ok(Self { address, prefix })
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

/// Returns the address's bits, the first one highest in both families.
fn bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn masked(bits: u128, prefix: u8) -> u128 {
    match prefix {
        0 => 0,
        prefix => bits & (u128::MAX << (128 - u32::from(prefix.min(128)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    #[test]
    fn texts_that_are_no_ranges_are_refused() {
        for bad in ["", "10.0.0.0", "10.0.0.0/", "10.0.0.0/33", "10.0.0/8", "::/129", "x/8", "10.0.0.0/-1"] {
            assert_eq!(bad.parse::<Cidr>(), Err(CidrError::Form(bad.to_owned())));
        }
        for bad in ["10.0.0.1/8", "fd00::1/64", "1.0.0.0/0"] {
            assert_eq!(bad.parse::<Cidr>(), Err(CidrError::HostBits(bad.to_owned())));
        }
        for good in ["0.0.0.0/0", "::/0", "10.244.0.0/16", "127.0.0.1/32", "fd00::/8", "::1/128"] {
            assert_eq!(cidr(good).to_string(), good);
        }
    }

    #[test]
    fn ranges_hold_their_own_family_only() {
        assert!(cidr("10.0.0.0/8").contains("10.255.0.1".parse().unwrap()));
        assert!(!cidr("10.0.0.0/8").contains("11.0.0.0".parse().unwrap()));
        assert!(!cidr("::/0").contains("10.0.0.1".parse().unwrap()));
        assert!(!cidr("0.0.0.0/0").contains("a00::1".parse().unwrap()));
        assert!(cidr("10.0.0.0/8").includes(cidr("10.1.0.0/16")));
        assert!(!cidr("10.1.0.0/16").includes(cidr("10.0.0.0/8")));
        assert!(cidr("10.1.0.0/16").overlaps(cidr("10.0.0.0/8")));
        assert!(!cidr("10.1.0.0/16").overlaps(cidr("10.2.0.0/16")));
        assert!(!cidr("0.0.0.0/0").overlaps(cidr("::/0")));
        assert_eq!(Cidr::single("::1".parse().unwrap()).to_string(), "::1/128");
    }
}
