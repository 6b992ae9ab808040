//! Stands for the crate getrandom, 0.3 or 0.4: random numbers come from a seed, so that equal runs are equal.
//!
//! It has what the crate rand asks for. Licence: MIT OR Apache-2.0.

/// Never occurs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error;

impl std::fmt::Display for Error {
    fn fmt(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
        formatter.write_str("no random numbers")
    }
}

impl std::error::Error for Error {}

impl Error {
    /// The system's number of the error: it has none.
    pub fn raw_os_error(self) -> Option<i32> {
        None
    }
}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        Self::other(error)
    }
}

/// Fills bytes.
pub fn fill(bytes: &mut [u8]) -> Result<(), Error> {
    virtual_random::fill(bytes);
    Ok(())
}

/// A number.
pub fn u32() -> Result<u32, Error> {
    Ok(virtual_random::next() as u32)
}

/// A number.
pub fn u64() -> Result<u64, Error> {
    Ok(virtual_random::next())
}

#[cfg(feature = "sys_rng")]
pub use of_system::SysRng;

#[cfg(feature = "sys_rng")]
mod of_system {
    use super::Error;

    /// The generator that stands for the operating system's.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct SysRng;

    impl rand_core::TryRng for SysRng {
        type Error = Error;

        fn try_next_u32(&mut self) -> Result<u32, Error> {
            super::u32()
        }

        fn try_next_u64(&mut self) -> Result<u64, Error> {
            super::u64()
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Error> {
            super::fill(bytes)
        }
    }

    impl rand_core::TryCryptoRng for SysRng {}
}
