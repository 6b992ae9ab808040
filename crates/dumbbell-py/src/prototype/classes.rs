//! Classes of Python with the fields of the structs of the C interface.

/// The type in Python of a field, by the word for its type in C: a flag is a bool, and a signed number, which is -1 where there is none, may be None.
macro_rules! type_of {
    (Flag) => { bool };
    (i64) => { Option<u64> };
    ($kind:ident) => { $kind };
}

macro_rules! value_of {
    (Flag, $value:expr) => {
        $value != 0
    };
    (i64, $value:expr) => {
        u64::try_from($value).ok()
    };
    ($kind:ident, $value:expr) => {
        $value
    };
}

/// Declares a class with the fields of a struct of the interface.
macro_rules! class {
    ($(#[$attribute:meta])* $name:ident from $from:ident) => {
        dumbbell_plugin::with_fields! { $from, class! [$(#[$attribute])*] $name, $from: }
    };
    ([$(#[$attribute:meta])*] $name:ident, $from:ident: $($field:ident: $kind:ident,)*) => {
        $(#[$attribute])*
        struct $name {
            $($field: type_of!($kind),)*
        }

        impl From<dumbbell_plugin::abi::$from> for $name {
            fn from(read: dumbbell_plugin::abi::$from) -> $name {
                $name { $($field: value_of!($kind, read.$field),)* }
            }
        }
    };
}
