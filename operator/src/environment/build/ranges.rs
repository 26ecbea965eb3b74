//! Address ranges that no environment may reach through `egress: Internet`.

use crate::config::{Cidr, ClusterRanges};

/// Everything of IPv4 that is no public unicast address, and the one public address that is a metadata service (Azure's).
const CLOSED_V4: [&str; 15] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "168.63.129.16/32",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.0.0/24",
    "192.0.2.0/24",
    "192.88.99.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/3",
];

/// The same of IPv6, with the ranges that carry IPv4 addresses inside: translators and tunnels would lead back to what is
/// closed above. IPv4-mapped addresses are not among them: the API server refuses them in a policy, and the kernel sends to
/// them as IPv4, which the other list is about.
const CLOSED_V6: [&str; 10] = [
    "::/96",
    "64:ff9b::/96",
    "64:ff9b:1::/48",
    "100::/64",
    "2001::/23",
    "2001:db8::/32",
    "2002::/16",
    "fc00::/7",
    "fe80::/9",
    "ff00::/8",
];

/// The whole of one family, and what of it is closed.
pub struct Open {
    /// `0.0.0.0/0` or `::/0`.
    pub cidr: &'static str,
    /// Ranges within it that stay closed, none of which lies in another.
    pub except: Vec<String>,
}

/// Returns what `egress: Internet` opens, per family.
pub fn internet(cluster: &ClusterRanges) -> [Open; 2] {
    [
        Open { cidr: "0.0.0.0/0", except: closed(&CLOSED_V4, cluster, false) },
        Open { cidr: "::/0", except: closed(&CLOSED_V6, cluster, true) },
    ]
}

fn closed(always: &[&str], cluster: &ClusterRanges, ipv6: bool) -> Vec<String> {
    let own = [&cluster.pods, &cluster.services, &cluster.nodes].into_iter().flatten().copied();
    let all: Vec<Cidr> = always
        .iter()
        .filter_map(|text| text.parse().ok())
        .chain(own.filter(|range| range.is_ipv6() == ipv6))
        .collect();
    outermost(&all)
}

/// Returns what `egress: Cluster` opens: the pods' ranges, without the nodes' where those lie within.
pub fn pods(cluster: &ClusterRanges) -> Vec<(String, Vec<String>)> {
    cluster
        .pods
        .iter()
        .map(|range| {
            let within: Vec<Cidr> =
                cluster.nodes.iter().copied().filter(|node| range.includes(*node) && range != node).collect();
            (range.to_string(), outermost(&within))
        })
        .collect()
}

/// Leaves out ranges that lie within others, and doubles: the API server refuses neither, enforcers do.
fn outermost(ranges: &[Cidr]) -> Vec<String> {
    let mut kept: Vec<Cidr> = Vec::with_capacity(ranges.len());
    for range in ranges {
        if !kept.iter().any(|other| other.includes(*range)) {
            kept.retain(|other| !range.includes(*other));
            kept.push(*range);
        }
    }
    kept.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn cluster(pods: &[&str], nodes: &[&str]) -> ClusterRanges {
        let parse = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        ClusterRanges { pods: parse(pods), services: Vec::new(), nodes: parse(nodes) }
    }

    fn is_open(address: &str, cluster: &ClusterRanges) -> bool {
        let address: IpAddr = address.parse().unwrap();
        internet(cluster).iter().any(|open| {
            open.cidr.parse::<Cidr>().unwrap().contains(address)
                && !open.except.iter().any(|range| range.parse::<Cidr>().unwrap().contains(address))
        })
    }

    #[test]
    fn every_constant_is_a_range() {
        for text in CLOSED_V4.iter().chain(&CLOSED_V6) {
            text.parse::<Cidr>().unwrap();
        }
    }

    #[test]
    fn the_internet_is_open_and_nothing_private_is() {
        let cluster = cluster(&["10.244.0.0/16", "2600:1f00::/40"], &["34.10.0.0/24"]);
        for open in ["1.1.1.1", "8.8.8.8", "140.82.121.4", "2606:4700::1111", "2a00:1450::1", "34.10.1.1"] {
            assert!(is_open(open, &cluster), "{open}");
        }
        for closed in [
            "10.0.0.1",
            "10.244.0.7",
            "172.31.255.255",
            "192.168.1.1",
            "127.0.0.1",
            "0.0.0.0",
            "169.254.169.254",
            "100.100.100.200",
            "192.0.0.192",
            "168.63.129.16",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "64:ff9b::a00:1",
            "64:ff9b:1::1",
            "2002:a00:1::",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "34.10.0.9",
            "2600:1f00::1",
            "::10.0.0.1",
        ] {
            assert!(!is_open(closed, &cluster), "{closed}");
        }
    }

    #[test]
    fn nodes_within_the_pods_range_stay_closed() {
        let found = pods(&cluster(&["10.244.0.0/16", "fd00:1::/64"], &["10.244.0.1/32", "10.1.0.0/24"]));
        assert_eq!(
            found,
            [
                ("10.244.0.0/16".to_owned(), vec!["10.244.0.1/32".to_owned()]),
                ("fd00:1::/64".to_owned(), vec![])
            ]
        );
    }

    #[test]
    fn no_range_lies_in_another() {
        let ranges =
            ["10.1.0.0/16", "10.0.0.0/8", "10.0.0.0/8", "11.0.0.0/8"].map(|text| text.parse().unwrap());
        assert_eq!(outermost(&ranges), ["10.0.0.0/8", "11.0.0.0/8"]);
    }
}
