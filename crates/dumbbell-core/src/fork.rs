//! Copies of a run and of its parts, which go on as the originals do, to the same bits.
//!
//! A part that a program brought along may refuse to be copied; the copy of the run is then refused, too. Everything else is `Clone`.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// Why there is no copy: a part that a program brought along cannot be copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CannotFork {
    /// The part, with its place in the run.
    pub part: String,
    /// Why, if the part gives a reason.
    pub reason: String,
}

impl CannotFork {
    /// A part that gives this `reason`.
    pub fn because(reason: impl Into<String>) -> CannotFork {
        CannotFork { part: String::new(), reason: reason.into() }
    }

    /// Names the part, unless a place further inside has named it.
    #[must_use]
    pub fn name_part(self, part: impl FnOnce() -> String) -> CannotFork {
        if self.part.is_empty() {
            CannotFork { part: part(), ..self }
        } else {
            self
        }
    }
}

impl fmt::Display for CannotFork {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = if self.part.is_empty() { "a part of the run" } else { &self.part };
        write!(to, "{part} cannot be copied")?;
        if self.reason.is_empty() {
            return Ok(());
        }
        write!(to, ": {}", self.reason)
    }
}

impl std::error::Error for CannotFork {}

/// Copies of what several parts of a run share: the copies of the parts share one copy of it.
#[derive(Default)]
pub struct SharedCopies {
    /// Addresses of originals, and their copies.
    made: Vec<(usize, Box<dyn Any + Send>)>,
}

impl SharedCopies {
    /// Returns the copy of `original` that all parts of the copied run get, made by `copy` the first time.
    pub fn share<T: Send + Sync + 'static>(&mut self, original: &Arc<T>, copy: impl FnOnce(&T) -> T) -> Arc<T> {
        let address = Arc::as_ptr(original).cast::<()>() as usize;
        let found = self.made.iter().filter(|(of, _)| *of == address).find_map(|(_, made)| made.downcast_ref::<Arc<T>>());
        if let Some(made) = found {
            return Arc::clone(made);
        }
        let made = Arc::new(copy(original));
        self.made.push((address, Box::new(Arc::clone(&made))));
        made
    }

    /// [`SharedCopies::share`] of what a lock guards.
    pub fn share_locked<T: Clone + Send + 'static>(&mut self, original: &Arc<Mutex<T>>) -> Arc<Mutex<T>> {
        self.share(original, |guarded| Mutex::new(guarded.lock().unwrap_or_else(PoisonError::into_inner).clone()))
    }
}

/// A part of a run that may refuse to be copied.
pub trait Fork: Sized {
    /// Returns a copy that goes on as the original does.
    ///
    /// # Errors
    /// A part that cannot be copied.
    fn fork(&self, shared: &mut SharedCopies) -> Result<Self, CannotFork>;
}

impl<T: Fork> Fork for Option<T> {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Self, CannotFork> {
        self.as_ref().map(|one| one.fork(shared)).transpose()
    }
}

impl<T: Fork> Fork for Box<T> {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Self, CannotFork> {
        (**self).fork(shared).map(Box::new)
    }
}

impl<T: Fork> Fork for Vec<T> {
    fn fork(&self, shared: &mut SharedCopies) -> Result<Self, CannotFork> {
        self.iter().map(|one| one.fork(shared)).collect()
    }
}

/// Implements [`Fork`] for a type: the fields before the semicolon may refuse, those behind it are cloned.
#[macro_export]
macro_rules! fork_fields {
    ($(<$($generic:ident: $bound:path),*>)? $type:ty { $($(#[$how:meta])* $part:ident),* ; $($(#[$meta:meta])* $plain:ident),* $(,)? }) => {
        impl$(<$($generic: $bound),*>)? $crate::fork::Fork for $type {
            fn fork(&self, shared: &mut $crate::fork::SharedCopies) -> Result<Self, $crate::fork::CannotFork> {
                Ok(Self {
                    $($(#[$how])* $part: $crate::fork::Fork::fork(&self.$part, shared)?,)*
                    $($(#[$meta])* $plain: self.$plain.clone(),)*
                })
            }
        }
    };
}

/// Implements the method `fork` of a trait for a type that is `Clone`: in a box of `dyn $trait`, or, for a trait without objects, as itself.
#[macro_export]
macro_rules! fork_by_clone {
    () => {
        fn fork(&self, _shared: &mut $crate::fork::SharedCopies) -> Result<Self, $crate::fork::CannotFork> {
            Ok(self.clone())
        }
    };
    ($($object:tt)+) => {
        fn fork(&self, _shared: &mut $crate::fork::SharedCopies) -> Result<Box<$($object)+>, $crate::fork::CannotFork> {
            Ok(Box::new(self.clone()))
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shared_is_copied_once() {
        let original = Arc::new(Mutex::new(1));
        let mut shared = SharedCopies::default();
        let (one, two) = (shared.share_locked(&original), shared.share_locked(&original));
        *one.lock().unwrap() = 2;
        assert_eq!((*original.lock().unwrap(), *two.lock().unwrap()), (1, 2));
        let other = shared.share_locked(&Arc::new(Mutex::new(1)));
        assert_eq!(*other.lock().unwrap(), 1);
    }

    #[test]
    fn a_refusal_names_the_innermost_part_and_its_reason() {
        let refused = CannotFork::because("it holds a socket").name_part(|| "flow 2: the endpoint quinn".into());
        let outer = refused.name_part(|| "the run".into());
        assert_eq!(outer.to_string(), "flow 2: the endpoint quinn cannot be copied: it holds a socket");
        assert_eq!(CannotFork::default().to_string(), "a part of the run cannot be copied");
    }
}
