//! Queue disciplines, congestion controls and endpoints that a program brings along, by the names that a configuration gives them.

use crate::protocol::{Protocol, ProtocolContext};
use dumbbell_core::aqm::{self, AnyAqm, Aqm, QueueContext};
use dumbbell_core::cc::{self, CcContext, CcSpec, CongestionControl};
use dumbbell_core::param::ParamError;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The keys of an algorithm in a configuration, its name included.
type Keys = Map<String, Value>;
type MakeAqm = Arc<dyn Fn(&Keys, &QueueContext) -> Result<aqm::DynAqm, ParamError> + Send + Sync>;
type NewProtocol = dyn Fn(&ProtocolContext) -> Box<dyn Protocol> + Send + Sync;
type ReadProtocol = Arc<dyn Fn(&Keys) -> Result<MakeProtocol, ParamError> + Send + Sync>;
type ChooseControl = Arc<dyn Fn(&Keys) -> Result<cc::CcFactory, ParamError> + Send + Sync>;

/// Gives every flow its endpoint.
#[derive(Clone)]
pub struct MakeProtocol(Arc<NewProtocol>);

impl MakeProtocol {
    /// That of the flow of `context`.
    pub fn make(&self, context: &ProtocolContext) -> Box<dyn Protocol> {
        (self.0)(context)
    }
}

impl fmt::Debug for MakeProtocol {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("MakeProtocol")
    }
}

/// What an algorithm of somebody else did wrong; the first is kept. A run that finds one ends with it.
#[derive(Clone, Debug, Default)]
pub struct PluginFault(Arc<OnceLock<String>>);

impl PluginFault {
    /// `what` happened.
    pub fn report(&self, what: impl FnOnce() -> String) {
        self.0.get_or_init(what);
    }

    /// What happened, if anything did.
    pub fn message(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

/// Queue disciplines and congestion controls in addition to the registered ones. One with the name of a registered one takes its place.
#[derive(Clone, Default)]
pub struct Extensions {
    aqms: BTreeMap<String, MakeAqm>,
    controls: BTreeMap<String, ChooseControl>,
    endpoints: BTreeMap<String, ReadProtocol>,
    stacks: BTreeMap<String, ReadProtocol>,
    /// Where they say what they did wrong.
    pub fault: PluginFault,
}

impl fmt::Debug for Extensions {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_set().entries(self.aqms.keys()).entries(self.controls.keys()).entries(self.endpoints.keys()).finish()
    }
}

impl Extensions {
    /// Adds the queue discipline `name`: `read` reads its keys, `new` builds it.
    pub fn aqm<P, A: Aqm + Send + 'static>(
        &mut self,
        name: &str,
        read: impl Fn(&Keys) -> Result<P, ParamError> + Send + Sync + 'static,
        new: impl Fn(P, &QueueContext) -> A + Send + Sync + 'static,
    ) {
        let make = move |keys: &Keys, context: &QueueContext| Ok(aqm::DynAqm::new(new(read(keys)?, context)));
        self.aqms.insert(name.to_owned(), Arc::new(make));
    }

    /// Adds the congestion control `name`: `read` reads its keys, `new` builds one for each connection.
    pub fn control<P: Clone + Send + Sync + 'static, C: CongestionControl + Send + 'static>(
        &mut self,
        name: &str,
        read: impl Fn(&Keys) -> Result<P, ParamError> + Send + Sync + 'static,
        new: impl Fn(P, &CcContext) -> C + Send + Sync + 'static,
    ) {
        self.boxed_control(name, read, move |params, context| cc::DynCc(Box::new(new(params, context))));
    }

    /// The same where the control is in a box already.
    pub fn boxed_control<P: Clone + Send + Sync + 'static>(
        &mut self,
        name: &str,
        read: impl Fn(&Keys) -> Result<P, ParamError> + Send + Sync + 'static,
        new: impl Fn(P, &CcContext) -> cc::DynCc + Send + Sync + 'static,
    ) {
        let new = Arc::new(new);
        let choose = move |keys: &Keys| {
            let (params, new) = (read(keys)?, Arc::clone(&new));
            Ok(cc::CcFactory(Arc::new(move |context| new(params.clone(), context))))
        };
        self.controls.insert(name.to_owned(), Arc::new(choose));
    }

    /// Adds the endpoint `name`: `read` reads its keys, `new` builds one for each flow.
    pub fn endpoint<P: Clone + Send + Sync + 'static, T: Protocol + 'static>(
        &mut self,
        name: &str,
        read: impl Fn(&Keys) -> Result<P, ParamError> + Send + Sync + 'static,
        new: impl Fn(P, &ProtocolContext) -> T + Send + Sync + 'static,
    ) {
        self.endpoints.insert(name.to_owned(), reader(read, new));
    }

    /// Adds the stack `name`: a transport that an entry of `flows` may name in place of TCP's congestion control, in `cc`.
    pub fn stack<P: Clone + Send + Sync + 'static, T: Protocol + 'static>(
        &mut self,
        name: &str,
        read: impl Fn(&Keys) -> Result<P, ParamError> + Send + Sync + 'static,
        new: impl Fn(P, &ProtocolContext) -> T + Send + Sync + 'static,
    ) {
        self.stacks.insert(name.to_owned(), reader(read, new));
    }

    /// The stack that `keys` name, with the others as parameters, if they name one.
    ///
    /// # Errors
    /// An unknown key or value.
    pub fn choose_stack(&self, keys: &Keys) -> Result<Option<MakeProtocol>, ParamError> {
        self.stacks.get(name(keys)).map(|read| read(keys)).transpose()
    }

    /// The endpoint that `keys` name, with the others as parameters, and its name.
    ///
    /// # Errors
    /// An unknown name, key or value.
    pub fn choose_endpoint(&self, keys: &Keys) -> Result<(String, MakeProtocol), ParamError> {
        let name = name(keys);
        let unknown = || {
            let known: Vec<&str> = self.endpoints.keys().map(String::as_str).collect();
            ParamError::new(
                "name",
                format!("{name:?}"),
                if known.is_empty() { "none is there".to_owned() } else { known.join(", ") },
            )
        };
        Ok((name.to_owned(), self.endpoints.get(name).ok_or_else(unknown)?(keys)?))
    }

    /// The queue discipline that `keys` name, with the others as parameters.
    ///
    /// # Errors
    /// An unknown name, key or value.
    pub fn build_aqm(&self, keys: &Keys, context: &QueueContext) -> Result<AnyAqm, ParamError> {
        match self.aqms.get(name(keys)) {
            Some(make) => make(keys, context).map(AnyAqm::Dyn),
            None => aqm::build(keys, context).map_err(|error| add_names(error, self.aqms.keys())),
        }
    }

    /// The congestion control that `keys` name, with the others as parameters.
    ///
    /// # Errors
    /// An unknown name, key or value.
    pub fn choose_control(&self, keys: &Keys) -> Result<CcSpec, ParamError> {
        if self.stacks.contains_key(name(keys)) {
            return Err(ParamError::new("plugin", "a stack", "a congestion control: only flows of [[flows]] may be a stack's"));
        }
        match self.controls.get(name(keys)) {
            Some(choose) => choose(keys).map(CcSpec::Dyn),
            None => CcSpec::from_json(keys).map_err(|error| add_names(error, self.controls.keys())),
        }
    }
}

/// Reads the keys of an endpoint by `read`, and makes one for each flow by `new`.
fn reader<P: Clone + Send + Sync + 'static, T: Protocol + 'static>(
    read: impl Fn(&Keys) -> Result<P, ParamError> + Send + Sync + 'static,
    new: impl Fn(P, &ProtocolContext) -> T + Send + Sync + 'static,
) -> ReadProtocol {
    let new = Arc::new(new);
    Arc::new(move |keys: &Keys| {
        let (params, new) = (read(keys)?, Arc::clone(&new));
        let make = move |context: &ProtocolContext| -> Box<dyn Protocol> { Box::new(new(params.clone(), context)) };
        Ok(MakeProtocol(Arc::new(make)))
    })
}

/// What was added is found by `plugin`, which is there if several have one name, or else by `name`.
fn name(keys: &Keys) -> &str {
    keys.get("plugin").or_else(|| keys.get("name")).and_then(Value::as_str).unwrap_or("")
}

/// An error about a name says which were added, too.
fn add_names<'a>(error: ParamError, added: impl Iterator<Item = &'a String>) -> ParamError {
    if error.key != "name" {
        return error;
    }
    let allowed = added.fold(error.allowed, |all, name| format!("{all}, {name}"));
    ParamError { allowed, ..error }
}
