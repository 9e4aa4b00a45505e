//! Targets, and versions of PTX.

use std::fmt;
use std::str::FromStr;

/// A PTX version: `8.7`.
///
/// ```
/// use ptx_target::Version;
///
/// assert_eq!("8.7".parse(), Ok(Version { major: 8, minor: 7 }));
/// assert!(["8", "8.", "+8.7", "8.7.1", "8.256"].iter().all(|text| text.parse::<Version>().is_err()));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    /// 8
    pub major: u8,
    /// 7
    pub minor: u8,
}

impl Version {
    /// The newest version of PTX. Kernels are checked with it, and so are modules without a header.
    pub const NEWEST: Version = Version { major: 9, minor: 5 };
}

impl FromStr for Version {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let dot = text.bytes().position(|byte| byte == b'.').ok_or(())?;
        Ok(Version { major: digits(&text[..dot])?, minor: digits(&text[dot + 1..])? })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Suffix of a target's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Suffix {
    /// `sm_90`: runs on every later chip.
    None,
    /// `sm_100f`: runs on the chips of its family.
    Family,
    /// `sm_90a`: runs on this chip only.
    Arch,
}

impl Suffix {
    /// In the order of what code may use.
    pub const ALL: [Suffix; 3] = [Suffix::None, Suffix::Family, Suffix::Arch];

    /// Returns true if the chip with this number has such a target: `sm_90a` and `sm_100f` are the first.
    pub fn exists_for(self, number: u16) -> bool {
        match self {
            Suffix::None => true,
            Suffix::Family => number >= 100,
            Suffix::Arch => number >= 90,
        }
    }
}

/// A target: `sm_90a`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Arch {
    /// 90
    pub number: u16,
    /// `a`, `f` or nothing.
    pub suffix: Suffix,
}

impl Arch {
    /// Without a suffix.
    pub const fn base(number: u16) -> Arch {
        Arch { number, suffix: Suffix::None }
    }

    /// The family of a chip: the chips that share its `f` features.
    pub fn family(self) -> u16 {
        self.number / 10
    }

    /// Returns true if a module for this target can be assembled for `chip`, as `ptxas -arch` names it: one for `sm_80` for every later
    /// chip, one for `sm_100f` for the later chips of its family, one for `sm_90a` for that chip with all its features.
    pub fn assembles_for(self, chip: Arch) -> bool {
        match self.suffix {
            Suffix::None => chip.number >= self.number,
            Suffix::Family => chip.family() == self.family() && chip.number >= self.number,
            Suffix::Arch => chip == self,
        }
    }

    /// Returns true if a program for this target may use what `needed` names: `sm_90` any later one, `sm_100f` the
    /// family's `f` and `a` targets from that number on, `sm_90a` itself only.
    pub fn provides(self, needed: Arch) -> bool {
        match needed.suffix {
            Suffix::None => self.number >= needed.number,
            Suffix::Family => {
                self.suffix != Suffix::None && self.family() == needed.family() && self.number >= needed.number
            }
            Suffix::Arch => self == needed,
        }
    }
}

impl FromStr for Arch {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let rest = text.strip_prefix("sm_").or_else(|| text.strip_prefix("compute_")).ok_or(())?;
        let (number, suffix) = match rest.as_bytes().last() {
            Some(b'a') => (&rest[..rest.len() - 1], Suffix::Arch),
            Some(b'f') => (&rest[..rest.len() - 1], Suffix::Family),
            _ => (rest, Suffix::None),
        };
        Ok(Arch { number: digits(number)?, suffix })
    }
}

/// A number without a sign. The instruction table has many: `str::parse` takes longer.
fn digits<N: TryFrom<u32>>(text: &str) -> Result<N, ()> {
    let add = |number: u32, byte: u8| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10 && number <= u32::from(u16::MAX)).then(|| number * 10 + u32::from(digit)).ok_or(())
    };
    if text.is_empty() {
        return Err(());
    }
    text.bytes().try_fold(0, add).and_then(|number| N::try_from(number).map_err(drop))
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let suffix = match self.suffix {
            Suffix::None => "",
            Suffix::Family => "f",
            Suffix::Arch => "a",
        };
        write!(f, "sm_{}{suffix}", self.number)
    }
}
