//! Closed lists of what people choose by name: programs, disks, probes. [`names!`] gives an enum its names, each said once.
//! An unknown name is refused with all that there are.
#![forbid(unsafe_code)]

use std::error::Error;
use std::fmt;

/// A name that nothing of a list has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownName {
    /// What it should have been the name of, such as `file system`.
    pub what: &'static str,
    /// As it was given.
    pub name: String,
    /// All that there are.
    pub names: &'static [&'static str],
}

impl fmt::Display for UnknownName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, name, names } = self;
        write!(formatter, "unknown {what} '{name}'; expected one of: {}", names.join(", "))
    }
}

impl Error for UnknownName {}

/// Gives an enum without data the list of its values (`ALL`), that of their names (`NAMES`), the name of each (`name`), and with
/// it [`Display`](fmt::Display) and [`FromStr`](std::str::FromStr). A name behind `or` is read as well and never written.
///
/// ```
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// enum Disk {
///     Flash,
///     Rotating,
/// }
///
/// forebay_names::names! { "disk": Disk { Flash = "flash" or "ssd", Rotating = "hdd" } }
///
/// assert_eq!(Disk::Rotating.to_string(), "hdd");
/// assert_eq!("ssd".parse(), Ok(Disk::Flash));
/// ```
#[macro_export]
macro_rules! names {
    ($what:literal: $kind:ident { $($value:ident = $name:literal $(or $other:literal)?),+ $(,)? }) => {
        impl $kind {
            /// The names of all.
            pub const NAMES: [&'static str; [$($name),+].len()] = [$($name),+];
            /// All of them, in the order of their names.
            pub const ALL: [Self; Self::NAMES.len()] = [$(Self::$value),+];

            /// What it is called on command lines and in results.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }
        }

        impl ::std::fmt::Display for $kind {
            fn fmt(&self, formatter: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                formatter.pad(self.name())
            }
        }

        impl ::std::str::FromStr for $kind {
            type Err = $crate::UnknownName;

            fn from_str(name: &str) -> Result<Self, $crate::UnknownName> {
                match name {
                    $($name $(| $other)? => Ok(Self::$value),)+
                    _ => Err($crate::UnknownName { what: $what, name: name.to_owned(), names: &Self::NAMES }),
                }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Disk {
        Flash,
        Rotating,
    }

    names! { "disk": Disk { Flash = "flash" or "ssd", Rotating = "hdd" } }

    #[test]
    fn each_value_is_read_back_from_its_name_and_fills_a_column() {
        for disk in Disk::ALL {
            assert_eq!(disk.to_string().parse(), Ok(disk));
        }
        assert_eq!(("ssd".parse(), format!("{:>6}", Disk::Flash).as_str()), (Ok(Disk::Flash), " flash"));
    }

    #[test]
    fn an_unknown_name_is_refused_with_all_that_there_are() {
        let refused = "HDD".parse::<Disk>().unwrap_err().to_string();
        assert_eq!(refused, "unknown disk 'HDD'; expected one of: flash, hdd");
    }
}
