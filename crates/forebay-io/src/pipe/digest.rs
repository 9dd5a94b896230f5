//! Checksums of the bytes written.

use sha2::Digest as _;
use std::{fmt, str::FromStr};

/// A kind of checksum.
///
/// ```
/// use forebay_io::pipe::Hash;
/// assert_eq!("sha256".parse(), Ok(Hash::Sha256));
/// assert!("md4".parse::<Hash>().unwrap_err().contains("sha256"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SHA-256, as printed by `sha256sum`.
    Sha256,
    /// CRC-32, as used in gzip and zip: detects accidental changes only.
    Crc32,
}

impl FromStr for Hash {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "sha256" => Ok(Hash::Sha256),
            "crc32" => Ok(Hash::Crc32),
            _ => Err(format!(
                "{name} is not a supported checksum. Use sha256 or crc32"
            )),
        }
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Hash::Sha256 => "sha256",
            Hash::Crc32 => "crc32",
        })
    }
}

pub(super) enum Hasher {
    Sha256(sha2::Sha256),
    Crc32(flate2::Crc),
}

impl Hasher {
    pub fn new(hash: Hash) -> Self {
        match hash {
            Hash::Sha256 => Hasher::Sha256(sha2::Sha256::new()),
            Hash::Crc32 => Hasher::Crc32(flate2::Crc::new()),
        }
    }

    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Sha256(sha) => sha.update(bytes),
            Hasher::Crc32(crc) => crc.update(bytes),
        }
    }

    /// The checksum, its kind, and its digits.
    pub fn finish(self) -> (Hash, String) {
        match self {
            Hasher::Sha256(sha) => {
                let bytes = sha.finalize();
                let digits = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                (Hash::Sha256, digits)
            }
            Hasher::Crc32(crc) => (Hash::Crc32, format!("{:08x}", crc.sum())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_standards() {
        let sum = |hash| {
            let mut hasher = Hasher::new(hash);
            hasher.update(b"1234");
            hasher.update(b"56789");
            hasher.finish().1
        };
        assert_eq!(sum(Hash::Crc32), "cbf43926");
        assert_eq!(
            sum(Hash::Sha256),
            "15e2b0d3c33891ebb0f1ef609ec419420c20e320ce94c65fbc8c3312448eb225"
        );
    }
}
