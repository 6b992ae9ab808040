//! Errors of texts.

use dumbbell_core::param::ParamError;

/// A text that describes no bottleneck: where, what was found there, and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not TOML.
    #[error("line {line}: {message}")]
    Syntax {
        /// The line, from 1.
        line: usize,
        /// Message of the parser.
        message: String,
    },
    /// A key that cannot be used.
    #[error("line {line}, {key}: found {found}, allowed: {allowed}")]
    Key {
        /// The line, from 1; that of the table if the key is missing.
        line: usize,
        /// Dotted path of the key, such as `aqm.target`.
        key: String,
        /// The value as found.
        found: String,
        /// The allowed values.
        allowed: String,
    },
}

impl Error {
    /// An error of a key in `line`.
    pub(crate) fn in_line(line: usize, error: ParamError) -> Error {
        let ParamError { key, found, allowed } = error;
        Error::Key { line, key, found, allowed }
    }
}
