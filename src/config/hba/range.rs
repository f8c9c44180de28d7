//! Address blocks.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

/// An address and which of its bits count. As in PostgreSQL, bits that do not count may be anything, and an IPv4 block says nothing
/// of IPv6 addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    family: Family,
    bits: u128,
    mask: u128,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Range {
    /// `address/prefix`: 10.0.0.0/8, ::1/128.
    pub fn cidr(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        if prefix.is_empty() || !prefix.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let prefix: u32 = prefix.parse().ok().filter(|prefix| *prefix <= width)?;
        let ones = u128::MAX.checked_shl(width - prefix).unwrap_or(0);
        let (family, bits) = bits(address);
        Some(Self { family, bits, mask: if width == 32 { ones & u128::from(u32::MAX) } else { ones } })
    }

    /// An address and a mask of its family.
    pub fn masked(address: IpAddr, mask: IpAddr) -> Option<Self> {
        let ((family, bits), (of, mask)) = (self::bits(address), self::bits(mask));
        (family == of).then_some(Self { family, bits, mask })
    }

    /// Is the address in it? An IPv4 address that came in by an IPv6 socket is an IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (family, bits) = bits(address.to_canonical());
        family == self.family && (bits ^ self.bits) & self.mask == 0
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ones = self.mask.count_ones();
        let network = self.bits & self.mask;
        match self.family {
            Family::V4 => write!(f, "{}/{ones}", Ipv4Addr::from_bits(network as u32)),
            Family::V6 => write!(f, "{}/{ones}", Ipv6Addr::from_bits(network)),
        }
    }
}

fn bits(address: IpAddr) -> (Family, u128) {
    match address {
        IpAddr::V4(v4) => (Family::V4, u128::from(v4.to_bits())),
        IpAddr::V6(v6) => (Family::V6, v6.to_bits()),
    }
}
