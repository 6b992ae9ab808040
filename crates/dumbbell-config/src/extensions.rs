//! Queue disciplines, congestion controls and endpoints that a program brings along, by the names that a configuration gives them.

use dumbbell_core::app::{AppContext, AppSpec};
use dumbbell_core::aqm::{Aqm, AqmSpec, DynAqm, QueueContext};
use dumbbell_core::cc::{CcContext, CcSpec, CongestionControl, DynCc};
use dumbbell_core::fork::SharedCopies;
use dumbbell_core::media::control::{ControlSpec, MediaControl};
use dumbbell_core::param::{Factory, ParamError};
use dumbbell_core::protocol::{Protocol, ProtocolContext};
use dumbbell_core::stream_transport::StreamTransport;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// The keys of an algorithm in a configuration, its name included.
type Keys = Map<String, Value>;
/// Reads the keys of an algorithm.
type Reader<C, T> = Arc<dyn Fn(&Keys) -> Result<Factory<C, T>, ParamError> + Send + Sync>;

/// Builds the endpoints of flows.
pub type ProtocolFactory = Factory<ProtocolContext, Box<dyn Protocol>>;

/// Builds the connections of applications.
pub type StreamFactory = Factory<ProtocolContext, Box<dyn StreamTransport>>;

/// Transport of the streams of an application.
#[derive(Clone, Debug, PartialEq)]
pub enum CarrierSpec {
    /// TCP with this congestion control.
    Tcp(CcSpec),
    /// A stack of a library.
    Stack(StreamFactory),
}

impl CarrierSpec {
    /// Returns the name of the congestion control, or of the stack.
    pub fn name(&self) -> &str {
        match self {
            CarrierSpec::Tcp(cc) => cc.name(),
            CarrierSpec::Stack(stack) => stack.name(),
        }
    }
}

/// A flow's transport.
#[derive(Clone, Debug, PartialEq)]
pub enum TransportSpec {
    /// TCP with this congestion control.
    Tcp(CcSpec),
    /// A stack of a library.
    Stack(ProtocolFactory),
}

impl TransportSpec {
    /// Returns the name of the congestion control, or of the stack.
    pub fn name(&self) -> &str {
        match self {
            TransportSpec::Tcp(cc) => cc.name(),
            TransportSpec::Stack(stack) => stack.name(),
        }
    }
}

/// First fault of an algorithm that the program brought along. A run that finds one ends with it.
#[derive(Clone, Debug, Default)]
pub struct PluginFault(Arc<OnceLock<String>>);

impl PluginFault {
    /// `what` happened.
    pub fn report(&self, what: impl FnOnce() -> String) {
        self.0.get_or_init(what);
    }

    /// Returns the place for faults of a copied run: those of one run do not end the other.
    #[must_use]
    pub fn fork(&self, shared: &mut SharedCopies) -> PluginFault {
        PluginFault(shared.share(&self.0, OnceLock::clone))
    }

    /// Returns the message of the fault, if there is one.
    pub fn message(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }
}

/// Queue disciplines and congestion controls in addition to the registered ones. One with the name of a registered one takes its place.
#[derive(Clone, Default)]
pub struct Extensions {
    aqms: BTreeMap<String, Reader<QueueContext, DynAqm>>,
    controls: BTreeMap<String, Reader<CcContext, DynCc>>,
    endpoints: BTreeMap<String, Reader<ProtocolContext, Box<dyn Protocol>>>,
    stacks: BTreeMap<String, Reader<ProtocolContext, Box<dyn Protocol>>>,
    stream_stacks: BTreeMap<String, Reader<ProtocolContext, Box<dyn StreamTransport>>>,
    media_controls: BTreeMap<String, Reader<AppContext, Box<dyn MediaControl>>>,
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
    pub fn aqm<P: Clone + Send + Sync + 'static, A: Aqm + Send + 'static>(
        &mut self,
        name: &str,
        read: impl Fn(&Keys) -> Result<P, ParamError> + Send + Sync + 'static,
        new: impl Fn(P, &QueueContext) -> A + Send + Sync + 'static,
    ) {
        self.aqms.insert(name.to_owned(), reader(read, move |params, context| DynAqm::new(new(params, context))));
    }

    /// Adds the congestion control `name`: `read` reads its keys, `new` builds one for each connection.
    pub fn control<P: Clone + Send + Sync + 'static, C: CongestionControl + Send + 'static>(
        &mut self,
        name: &str,
        read: impl Fn(&Keys) -> Result<P, ParamError> + Send + Sync + 'static,
        new: impl Fn(P, &CcContext) -> C + Send + Sync + 'static,
    ) {
        self.boxed_control(name, read, move |params, context| DynCc(Box::new(new(params, context))));
    }

    /// Adds a congestion control whose instances are in boxes already.
    pub fn boxed_control<P: Clone + Send + Sync + 'static>(
        &mut self,
        name: &str,
        read: impl Fn(&Keys) -> Result<P, ParamError> + Send + Sync + 'static,
        new: impl Fn(P, &CcContext) -> DynCc + Send + Sync + 'static,
    ) {
        self.controls.insert(name.to_owned(), reader(read, new));
    }

    /// Adds the endpoint `name`: `read` reads its keys, `new` builds one for each flow.
    pub fn endpoint<P: Clone + Send + Sync + 'static, T: Protocol + 'static>(
        &mut self,
        name: &str,
        read: impl Fn(&Keys) -> Result<P, ParamError> + Send + Sync + 'static,
        new: impl Fn(P, &ProtocolContext) -> T + Send + Sync + 'static,
    ) {
        self.endpoints
            .insert(name.to_owned(), reader(read, move |params, context| Box::new(new(params, context)) as Box<dyn Protocol>));
    }

    /// Adds the stack `name`: a transport that an entry of `flows` may name in place of TCP's congestion control, in `cc`.
    pub fn stack<P: Clone + Send + Sync + 'static, T: Protocol + 'static>(
        &mut self,
        name: &str,
        read: impl Fn(&Keys) -> Result<P, ParamError> + Send + Sync + 'static,
        new: impl Fn(P, &ProtocolContext) -> T + Send + Sync + 'static,
    ) {
        self.stacks
            .insert(name.to_owned(), reader(read, move |params, context| Box::new(new(params, context)) as Box<dyn Protocol>));
    }

    /// Adds the stack `name`, with streams: a transport that an entry of `app` may name in place of TCP's congestion control, in `cc`.
    pub fn stream_stack<P: Clone + Send + Sync + 'static, T: StreamTransport + 'static>(
        &mut self,
        name: &str,
        read: impl Fn(&Keys) -> Result<P, ParamError> + Send + Sync + 'static,
        new: impl Fn(P, &ProtocolContext) -> T + Send + Sync + 'static,
    ) {
        let new = move |params, context: &ProtocolContext| Box::new(new(params, context)) as Box<dyn StreamTransport>;
        self.stream_stacks.insert(name.to_owned(), reader(read, new));
    }

    /// Adds the congestion control `name` of media: `read` reads its keys, `new` builds one for each video.
    pub fn media_control<P: Clone + Send + Sync + 'static, T: MediaControl + 'static>(
        &mut self,
        name: &str,
        read: impl Fn(&Keys) -> Result<P, ParamError> + Send + Sync + 'static,
        new: impl Fn(P, &AppContext) -> T + Send + Sync + 'static,
    ) {
        self.boxed_media_control(name, read, move |params, context| Box::new(new(params, context)) as Box<dyn MediaControl>);
    }

    /// Adds a congestion control of media whose instances are in boxes already.
    pub fn boxed_media_control<P: Clone + Send + Sync + 'static>(
        &mut self,
        name: &str,
        read: impl Fn(&Keys) -> Result<P, ParamError> + Send + Sync + 'static,
        new: impl Fn(P, &AppContext) -> Box<dyn MediaControl> + Send + Sync + 'static,
    ) {
        self.media_controls.insert(name.to_owned(), reader(read, new));
    }

    /// Reads the application that `keys` name, with the others as parameters.
    ///
    /// # Errors
    /// An unknown name, key or value.
    pub fn read_app(&self, keys: &Keys) -> Result<AppSpec, ParamError> {
        let own = match keys.get("control") {
            Some(Value::Object(own)) => own.clone(),
            Some(Value::String(name)) => Keys::from_iter([("name".to_owned(), Value::from(name.as_str()))]),
            _ => return AppSpec::from_json(keys),
        };
        let Some(read) = self.media_controls.get(name(&own)) else {
            return AppSpec::from_json(keys).map_err(|error| add_names("control", error, self.media_controls.keys()));
        };
        let mut rest = keys.clone();
        rest.remove("control");
        let mut spec = AppSpec::from_json(&rest)?;
        match &mut spec {
            AppSpec::Video(params) => params.control = ControlSpec::Own(read(&own).map_err(|e| e.prefix_key("control"))?),
            _ => return AppSpec::from_json(keys),
        }
        Ok(spec)
    }

    /// Reads the transport that `keys` name, with the others as parameters.
    ///
    /// # Errors
    /// An unknown name, key or value.
    pub fn read_transport(&self, keys: &Keys) -> Result<TransportSpec, ParamError> {
        match self.stacks.get(name(keys)) {
            Some(read) => read(keys).map(TransportSpec::Stack),
            None => self.read_control(keys).map(TransportSpec::Tcp),
        }
    }

    /// Reads the transport of an application's streams that `keys` name, with the others as parameters.
    ///
    /// # Errors
    /// An unknown name, key or value.
    pub fn read_carrier(&self, keys: &Keys) -> Result<CarrierSpec, ParamError> {
        match self.stream_stacks.get(name(keys)) {
            Some(read) => read(keys).map(CarrierSpec::Stack),
            None => self.read_control(keys).map(CarrierSpec::Tcp),
        }
    }

    /// Reads the endpoint that `keys` name, with the others as parameters.
    ///
    /// # Errors
    /// An unknown name, key or value.
    pub fn read_endpoint(&self, keys: &Keys) -> Result<ProtocolFactory, ParamError> {
        let unknown = || {
            let known: Vec<&str> = self.endpoints.keys().map(String::as_str).collect();
            let allowed = if known.is_empty() { "none is there".to_owned() } else { known.join(", ") };
            ParamError::new("name", format!("{:?}", name(keys)), allowed)
        };
        self.endpoints.get(name(keys)).ok_or_else(unknown)?(keys)
    }

    /// Reads the queue discipline that `keys` name, with the others as parameters.
    ///
    /// # Errors
    /// An unknown name, key or value.
    pub fn read_aqm(&self, keys: &Keys) -> Result<AqmSpec, ParamError> {
        match self.aqms.get(name(keys)) {
            Some(read) => read(keys).map(AqmSpec::Dyn),
            None => AqmSpec::from_json(keys).map_err(|error| add_names("name", error, self.aqms.keys())),
        }
    }

    /// Reads the congestion control that `keys` name, with the others as parameters.
    ///
    /// # Errors
    /// An unknown name, key or value.
    pub fn read_control(&self, keys: &Keys) -> Result<CcSpec, ParamError> {
        if self.stacks.contains_key(name(keys)) {
            return Err(ParamError::new(
                "plugin",
                "a stack",
                "a congestion control: only [[flows]] and [[app]] may be a stack's",
            ));
        }
        match self.controls.get(name(keys)) {
            Some(read) => read(keys).map(CcSpec::Dyn),
            None => CcSpec::from_json(keys).map_err(|error| add_names("name", error, self.controls.keys())),
        }
    }
}

/// Reads keys by `read`, for a factory that builds by `new`.
fn reader<P: Clone + Send + Sync + 'static, C: 'static, T: 'static>(
    read: impl Fn(&Keys) -> Result<P, ParamError> + Send + Sync + 'static,
    new: impl Fn(P, &C) -> T + Send + Sync + 'static,
) -> Reader<C, T> {
    let new = Arc::new(new);
    Arc::new(move |keys: &Keys| {
        let (params, new) = (read(keys)?, Arc::clone(&new));
        Ok(Factory::new(keys, move |context| new(params.clone(), context)))
    })
}

/// Returns the name by which an addition is found: `plugin`, which is there if several have one name, or else `name`.
fn name(keys: &Keys) -> &str {
    keys.get("plugin").or_else(|| keys.get("name")).and_then(Value::as_str).unwrap_or("")
}

/// An error about the name at `key` says which were added, too.
fn add_names<'a>(key: &str, error: ParamError, added: impl Iterator<Item = &'a String>) -> ParamError {
    if error.key != key {
        return error;
    }
    let allowed = added.fold(error.allowed, |all, name| format!("{all}, {name}"));
    ParamError { allowed, ..error }
}
