//! Loading a library and what it declares.
#![allow(unsafe_code)]

use crate::abi;
use crate::control::PluginControl;
use crate::media::PluginMedia;
use crate::queue::PluginQueue;
use crate::stack::PluginStack;
use dumbbell_config::extensions::{Extensions, PluginFault};
use dumbbell_core::app::AppContext;
use dumbbell_core::aqm::{self, QueueContext};
use dumbbell_core::cc::{self, CcContext};
use dumbbell_core::media::control::MediaControl;
use dumbbell_core::media::feedback::PerPacketFeedback;
use dumbbell_core::param::ParamError;
use dumbbell_core::protocol::ProtocolContext;
use dumbbell_core::units::Duration;
use serde_json::{json, Map, Value};
use std::ffi::{c_char, CStr, OsStr};
use std::mem::{offset_of, MaybeUninit};
use std::sync::Arc;

/// Why a library is no plugin; one line.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct BadPlugin(String);

fn bad(what: impl Into<String>) -> BadPlugin {
    BadPlugin(what.into())
}

/// A declared parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Declared {
    /// Key of the parameter.
    pub name: String,
    /// One of the kinds of `include/dumbbell.h`.
    kind: u32,
    default: f64,
    min: f64,
    max: f64,
    unit: String,
    doc: String,
}

/// Key of a stack's congestion control.
const CONTROL: &str = "control";

/// The functions of a stack that has streams.
const OF_STREAMS: [&str; 4] = ["stream_write", "stream_read", "close", "lost"];

/// Keys of a plugin's table that are no parameters.
const TAKEN: [&str; 3] = ["name", "plugin", CONTROL];

/// Whole numbers up to this are exact.
const EXACT: f64 = (1_u64 << 53) as f64;

impl Declared {
    /// Reads the declaration of `param`.
    ///
    /// # Safety
    /// The pointers of `param` are strings of C, or null.
    unsafe fn read(param: &abi::CParam) -> Result<Declared, BadPlugin> {
        // SAFETY: the condition above
        let [name, unit, doc] =
            [(param.name, "name"), (param.unit, "unit"), (param.doc, "doc")].map(|(at, of)| unsafe { text(at, of) });
        Declared::new(name?, param.kind, [param.value, param.min, param.max], unit?, doc?)
    }

    /// A parameter of a kind of `include/dumbbell.h`, with its default and its range.
    ///
    /// # Errors
    /// A name, kind or number that cannot be.
    pub fn new(name: String, kind: u32, numbers: [f64; 3], unit: String, doc: String) -> Result<Declared, BadPlugin> {
        let [default, min, max] = numbers;
        if !is_key(&name) || TAKEN.contains(&name.as_str()) {
            let taken = TAKEN.join(", ");
            return Err(bad(format!("parameter {name:?}; allowed: letters, digits and _, a letter first, but none of {taken}")));
        }
        let is_whole = kind != abi::FLOAT;
        let fits = |value: f64| value.is_finite() && (!is_whole || (value.fract() == 0.0 && (0.0..=EXACT).contains(&value)));
        let is_binary = kind != abi::BOOL || (min == 0.0 && max == 1.0);
        let good = kind <= abi::SIZE && [default, min, max].into_iter().all(fits) && (min..=max).contains(&default);
        if !good || !is_binary {
            let found = format!("parameter {name}: kind {kind}, {default} from {min} to {max}");
            return Err(bad(format!("{found}; allowed: kinds 0 to 5, min <= value <= max, whole numbers except for kind 0")));
        }
        Ok(Declared { name, kind, default, min, max, unit, doc })
    }

    /// A number of this parameter as JSON.
    pub fn json(&self, value: f64) -> Value {
        match self.kind {
            abi::FLOAT => json!(value),
            abi::BOOL => json!(value != 0.0),
            _ => json!(value as u64),
        }
    }

    /// The value at `share` of its range, from 0 to 1; of wide ranges small values are as likely as large ones.
    #[allow(clippy::disallowed_methods)] // an example for a test, nothing of a run
    pub fn draw(&self, share: f64) -> Value {
        let value = if self.min >= 0.0 && self.max > 1000.0 * self.min.max(1.0) {
            (share * (self.max - self.min).ln_1p()).exp_m1() + self.min
        } else {
            self.min + share * (self.max - self.min)
        };
        self.json(if self.kind == abi::FLOAT { value } else { value.round() }.clamp(self.min, self.max))
    }

    /// As parameters of registered algorithms are described.
    fn to_json(&self) -> Value {
        let (kind, unit) = match self.kind {
            abi::FLOAT => ("float", self.unit.as_str()),
            abi::INT => ("int", self.unit.as_str()),
            abi::BOOL => ("bool", ""),
            abi::TIME => ("time", ""),
            abi::RATE => ("rate", ""),
            _ => ("int", "bytes"),
        };
        let bound = |value| if self.kind == abi::BOOL { Value::Null } else { self.json(value) };
        json!({
            "name": self.name, "kind": kind, "optional": false, "unit": unit, "default": self.json(self.default),
            "min": bound(self.min), "max": bound(self.max), "choices": null, "doc": self.doc, "source": "",
        })
    }

    fn value(&self, given: &Value) -> Result<f64, ParamError> {
        let found = match (given, self.kind) {
            (Value::Bool(on), abi::BOOL) => Some(f64::from(u8::from(*on))),
            (Value::Number(number), abi::FLOAT) => number.as_f64(),
            (Value::Number(number), kind) if kind != abi::BOOL => number.as_u64().map(|whole| whole as f64),
            _ => None,
        };
        found.filter(|value| (self.min..=self.max).contains(value)).ok_or_else(|| {
            let allowed =
                if self.kind == abi::BOOL { "true or false".to_owned() } else { format!("{} to {}", self.min, self.max) };
            ParamError::new(&self.name, given, allowed)
        })
    }
}

/// The congestion control of a stack, and the values of its parameters.
type StackKeys = (String, Arc<[f64]>);
type MakeQueue = Arc<dyn Fn(&[f64], &QueueContext, PluginFault) -> aqm::DynAqm + Send + Sync>;
type MakeStack = Arc<dyn Fn((&str, &[f64]), &ProtocolContext, PluginFault) -> PluginStack + Send + Sync>;
type MakeControl = Arc<dyn Fn(&[f64], &CcContext, PluginFault) -> cc::DynCc + Send + Sync>;
type MakeMedia = Arc<dyn Fn(&[f64], &AppContext, PluginFault) -> Box<dyn MediaControl> + Send + Sync>;

/// Kind of a plugin, with the function that makes an instance from the values of its parameters, for a queue or a connection; faults
/// go to a [`PluginFault`].
#[derive(Clone)]
pub enum Make {
    /// A queue discipline.
    Queue(MakeQueue),
    /// A congestion control.
    Control(MakeControl),
    /// A congestion control of video.
    Media(MakeMedia),
    /// A transport with both ends.
    Stack {
        /// Names of its congestion controls, the default first.
        controls: Arc<[String]>,
        /// Whether it has streams, which applications need.
        has_streams: bool,
        /// Makes the ends of one flow.
        new: MakeStack,
    },
}

/// Declaration of a plugin. A library stays loaded.
#[derive(Clone)]
pub struct Plugin {
    name: Arc<str>,
    title: String,
    source: String,
    params: Arc<[Declared]>,
    make: Make,
    /// Functions and fields that are set and have no effect.
    without_effect: Option<String>,
}

/// A string of the library.
///
/// # Safety
/// `at` is null, or a string of C.
unsafe fn text(at: *const c_char, of: &str) -> Result<String, BadPlugin> {
    if at.is_null() {
        return Err(bad(format!("{of} is NULL; allowed: a string")));
    }
    // SAFETY: the condition above
    let bytes = unsafe { CStr::from_ptr(at) };
    bytes.to_str().map(str::to_owned).map_err(|_| bad(format!("{of} is no UTF-8")))
}

/// A list of strings that ends with null.
///
/// # Safety
/// `at` is null, or such a list.
unsafe fn names(at: *const *const c_char) -> Result<Vec<String>, BadPlugin> {
    let mut found = Vec::new();
    if at.is_null() {
        return Err(bad("controls is NULL; allowed: a list of names"));
    }
    // SAFETY: the condition above: there is one more as long as none was null
    while let Some(one) = unsafe { at.add(found.len()).read().as_ref() } {
        // SAFETY: a string of C, by the same condition
        found.push(unsafe { text(one, "a control")? });
    }
    match found.iter().find(|name| !is_key(&name.replace('-', "_"))) {
        Some(wrong) => Err(bad(format!("control {wrong:?}; allowed: letters, digits, - and _, a letter first"))),
        None if found.is_empty() => Err(bad("controls is empty; allowed: one or more")),
        None => Ok(found),
    }
}

/// Reads the first `length` bytes of a struct that was shorter in older versions; what they do not have is NULL.
///
/// # Safety
/// `at` has so many valid bytes, and the fields behind them may be zero.
unsafe fn read_start<T>(at: *const T, length: usize) -> T {
    let mut read = MaybeUninit::<T>::zeroed();
    // SAFETY: the condition above; `length` is at most the size of `T`
    unsafe {
        std::ptr::copy_nonoverlapping(at.cast::<u8>(), read.as_mut_ptr().cast(), length);
        read.assume_init()
    }
}

/// Reads the functions at `at`. `ends` has, in order, the lengths of older versions of the interface, each with the last version that has it.
///
/// # Safety
/// The functions are valid from now on, and have the length of their `version`.
unsafe fn read_functions<T>(at: *const T, version: u32, ends: &[(u32, usize)]) -> &'static T {
    let older = ends.iter().find(|(last, _)| version <= *last);
    let length = older.map_or(size_of::<T>(), |&(_, length)| length);
    // SAFETY: the condition above; a function that an older version does not have is optional
    Box::leak(Box::new(unsafe { read_start(at, length) }))
}

/// Letters, digits and _, a letter first.
fn is_key(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.len() <= 64
        && name.chars().all(|one| one.is_ascii_alphanumeric() || one == '_')
}

/// Shortest and longest interval between two reports, ns.
const INTERVALS: std::ops::RangeInclusive<u64> = 1_000_000..=60_000_000_000;

/// Reads the functions of a control of video.
fn read_media(media: &'static abi::CMedia, name: Arc<str>) -> Result<Make, BadPlugin> {
    let there = [
        media.create.is_some(),
        media.destroy.is_some(),
        media.encoder_rate.is_some(),
        media.pacing_rate.is_some(),
        media.feedback.is_some(),
    ];
    all_there(["create", "destroy", "encoder_rate", "pacing_rate", "feedback"], there)?;
    if media.timer.is_some() != media.timer_at.is_some() {
        return Err(bad("one of timer() and timer_at() is NULL; allowed: both or none"));
    }
    check_interval(media.interval)?;
    let interval = Duration(media.interval);
    Ok(Make::Media(Arc::new(move |values, context, fault| {
        Box::new(PerPacketFeedback::new(PluginMedia::new(media, &name, values, context, fault), interval))
    })))
}

/// Refuses an interval between reports that cannot be.
///
/// # Errors
/// One that is too short or too long.
pub fn check_interval(interval: u64) -> Result<(), BadPlugin> {
    if INTERVALS.contains(&interval) {
        return Ok(());
    }
    Err(bad(format!("interval {interval}; allowed: {} to {}, ns", INTERVALS.start(), INTERVALS.end())))
}

impl Plugin {
    /// Loads the library at `path`: runs its code.
    ///
    /// # Errors
    /// A library that cannot be loaded, or is no plugin of this version of the interface.
    pub fn load(path: impl AsRef<OsStr>) -> Result<Plugin, BadPlugin> {
        // SAFETY: none can be given for code of somebody else: the caller trusts it, as the crate's documentation says
        let library = unsafe { libloading::Library::new(path) }.map_err(|error| bad(one_line(&error.to_string())))?;
        // it stays loaded: what it describes is valid from now on
        let library: &'static libloading::Library = Box::leak(Box::new(library));
        // SAFETY: the interface gives this type to that name
        let describe = unsafe { library.get::<unsafe extern "C" fn() -> *const abi::CPlugin>(b"dumbbell_describe\0") };
        let describe = describe.map_err(|_| bad("it exports no dumbbell_describe()"))?;
        // SAFETY: a function of the library without conditions
        let described = unsafe { describe() };
        // SAFETY: a description of any version begins with its number; the rest is read if the number is ours
        let length = match unsafe { described.cast::<u32>().as_ref() } {
            None => return Err(bad("dumbbell_describe() returned NULL")),
            Some(&abi::ABI_WITHOUT_STACKS) => offset_of!(abi::CPlugin, stack),
            Some(&(abi::ABI_WITHOUT_MODELS | abi::ABI_WITHOUT_STREAMS)) => offset_of!(abi::CPlugin, media),
            Some(&(abi::ABI_WITHOUT_COPIES | abi::ABI)) => size_of::<abi::CPlugin>(),
            Some(other) => {
                let (first, last) = (abi::ABI_WITHOUT_STACKS, abi::ABI);
                return Err(bad(format!(
                    "it has version {other} of the interface; this dumbbell has {last}, and reads {first} to {last}"
                )));
            }
        };
        // SAFETY: the interface makes it a valid description of this length that stays
        unsafe { Plugin::read(&read_start(described, length)) }
    }

    /// Reads a description.
    ///
    /// # Safety
    /// The pointers of `described` are null, or valid from now on.
    unsafe fn read(described: &abi::CPlugin) -> Result<Plugin, BadPlugin> {
        // SAFETY: the condition above, here and below
        let [name, title, source] =
            unsafe { [text(described.name, "name")?, text(described.title, "title")?, text(described.source, "source")?] };
        if described.params > 0 && described.param.is_null() {
            return Err(bad(format!("{} parameters, and param is NULL", described.params)));
        }
        let params = (0..described.params as usize).map(|index| unsafe { Declared::read(&*described.param.add(index)) });
        let params = params.collect::<Result<Vec<_>, _>>()?;
        let own = Arc::from(name.as_str());
        let missing =
            [described.queue.is_null(), described.control.is_null(), described.stack.is_null(), described.media.is_null()];
        match missing.into_iter().filter(|is_missing| !is_missing).count() {
            0 => return Err(bad("queue, control, stack and media are NULL; allowed: one of them")),
            1 => {}
            _ => return Err(bad("it has several of queue, control, stack and media; allowed: one of them")),
        }
        let (version, copies) = (described.abi, abi::ABI_WITHOUT_COPIES);
        let make = match (described.queue.is_null(), described.control.is_null(), described.stack.is_null()) {
            (false, ..) => {
                let ends = [(copies, offset_of!(abi::CQueue, clone))];
                // SAFETY: the condition above
                let queue = unsafe { read_functions(described.queue, version, &ends) };
                let there = [queue.create.is_some(), queue.destroy.is_some(), queue.enqueue.is_some(), queue.dequeue.is_some()];
                all_there(["create", "destroy", "enqueue", "dequeue"], there)?;
                if queue.timer.is_some() != queue.timer_at.is_some() {
                    return Err(bad("one of timer() and timer_at() is NULL; allowed: both or none"));
                }
                Make::Queue(Arc::new(move |values, context, fault| {
                    aqm::DynAqm::new(PluginQueue::new(queue, &own, values, context, fault))
                }))
            }
            (_, false, _) => {
                let ends =
                    [(abi::ABI_WITHOUT_MODELS, offset_of!(abi::CControl, model)), (copies, offset_of!(abi::CControl, clone))];
                // SAFETY: the condition above
                let control = unsafe { read_functions(described.control, version, &ends) };
                let grows = control.by == 2 || control.cong_avoid.is_some();
                let sets = control.by != 2 || control.cong_control.is_some();
                let there = [control.create.is_some(), control.destroy.is_some(), control.ssthresh.is_some(), grows, sets];
                all_there(["create", "destroy", "ssthresh", "cong_avoid", "cong_control"], there)?;
                if control.by > 2 || control.codepoint > 2 || control.echo > 2 {
                    let found = format!("by {}, codepoint {}, echo {}", control.by, control.codepoint, control.echo);
                    return Err(bad(format!("{found}; allowed: 0 to 2")));
                }
                Make::Control(Arc::new(move |values, context, fault| {
                    cc::DynCc(Box::new(PluginControl::new(control, &own, values, context, &fault)))
                }))
            }
            (.., false) => {
                let ends =
                    [(abi::ABI_WITHOUT_STREAMS, offset_of!(abi::CStack, stream_write)), (copies, offset_of!(abi::CStack, clone))];
                // SAFETY: the condition above
                read_stack(unsafe { read_functions(described.stack, version, &ends) }, own)?
            }
            _ => {
                let ends = [(copies, offset_of!(abi::CMedia, clone))];
                // SAFETY: the condition above
                read_media(unsafe { read_functions(described.media, version, &ends) }, own)?
            }
        };
        let mut plugin = Plugin::new(name, title, source, params, make)?;
        // SAFETY: the condition above
        if let Some(control) = unsafe { described.control.as_ref() }.filter(|control| control.by != 2) {
            let hooks = [("cong_control()", control.cong_control.is_some()), ("rate_samples", control.rate_samples != 0)];
            plugin.note_without_effect(hooks, "DUMBBELL_BY_BOTH");
        }
        Ok(plugin)
    }

    /// Notes the first of these that is there: it counts only with `both`, and the control has another way.
    pub fn note_without_effect(&mut self, hooks: [(&str, bool); 2], both: &str) {
        let found = hooks.iter().find(|(_, is_there)| *is_there);
        self.without_effect = found.map(|(name, _)| format!("it has {name}, which has no effect; allowed: only with {both}"));
    }

    /// Returns the functions and fields that are set and have no effect, in a line.
    pub fn without_effect(&self) -> Option<&str> {
        self.without_effect.as_deref()
    }

    /// A plugin of other origin than a library.
    ///
    /// # Errors
    /// A name that cannot be, or is taken.
    pub fn new(name: String, title: String, source: String, params: Vec<Declared>, make: Make) -> Result<Plugin, BadPlugin> {
        // stacks are called by their versions
        let dots = if matches!(make, Make::Stack { .. }) { ['-', '.'] } else { ['-', '-'] };
        if !is_key(&name.replace(dots, "_")) {
            return Err(bad(format!("name {name:?}; allowed: letters, digits, - and _, a letter first")));
        }
        let mut registered = aqm::specs().into_iter().chain(cc::specs());
        if registered.any(|spec| spec.name == name) {
            return Err(bad(format!("name {name:?} is that of a registered algorithm; allowed: one of its own")));
        }
        if let Some(twice) = params.iter().enumerate().find(|(at, one)| params[..*at].iter().any(|other| other.name == one.name))
        {
            return Err(bad(format!("two parameters {}", twice.1.name)));
        }
        Ok(Plugin { name: name.into(), title, source, params: params.into(), make, without_effect: None })
    }

    /// Returns its name in tables.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its kind.
    pub fn make(&self) -> &Make {
        &self.make
    }

    /// Returns its parameters.
    pub fn params(&self) -> &[Declared] {
        &self.params
    }

    /// As registered algorithms are described, with `kind`.
    pub fn to_json(&self) -> Value {
        let kind = match self.make {
            Make::Queue(_) => "aqm",
            Make::Control(_) => "cc",
            Make::Media(_) => "media",
            Make::Stack { .. } => "stack",
        };
        let mut params: Vec<Value> = self.params.iter().map(Declared::to_json).collect();
        if let Make::Stack { controls, .. } = &self.make {
            params.insert(
                0,
                json!({
                    "name": CONTROL, "kind": "choice", "optional": false, "unit": "", "default": controls[0], "min": null, "max": null,
                    "choices": **controls, "doc": "Its congestion control.", "source": "",
                }),
            );
        }
        let has_streams = matches!(self.make, Make::Stack { has_streams: true, .. });
        json!({
            "kind": kind, "name": *self.name, "title": self.title, "source": self.source, "params": params, "versions": {},
            "streams": has_streams,
        })
    }

    /// The values of its parameters in the keys of a configuration.
    ///
    /// # Errors
    /// An unknown key, or a value that is not allowed.
    pub fn values(&self, keys: &Map<String, Value>) -> Result<Vec<f64>, ParamError> {
        let is_stack = matches!(self.make, Make::Stack { .. });
        let known = |key: &str| self.params.iter().any(|param| param.name == key) || (is_stack && key == CONTROL);
        if let Some(key) = keys.keys().find(|key| !["name", "plugin"].contains(&key.as_str()) && !known(key)) {
            let own = is_stack.then_some(CONTROL);
            let names: Vec<&str> = own.into_iter().chain(self.params.iter().map(|param| param.name.as_str())).collect();
            return Err(ParamError::new(key, "this key", names.join(", ")));
        }
        self.params.iter().map(|param| keys.get(&param.name).map_or(Ok(param.default), |given| param.value(given))).collect()
    }

    /// Adds it to what a run may use, as what configurations have under `key`.
    pub fn add_to(&self, extensions: &mut Extensions, key: &str) {
        let (reads, fault) = (self.clone(), extensions.fault.clone());
        match self.make.clone() {
            Make::Queue(make) => extensions.aqm(
                key,
                move |keys| reads.values(keys),
                move |values: Vec<f64>, context| make(&values, context, fault.clone()),
            ),
            Make::Control(make) => extensions.boxed_control(
                key,
                move |keys| reads.values(keys).map(Arc::from),
                move |values: Arc<[f64]>, context| make(&values, context, fault.clone()),
            ),
            Make::Media(make) => extensions.boxed_media_control(
                key,
                move |keys| reads.values(keys),
                move |values: Vec<f64>, context| make(&values, context, fault.clone()),
            ),
            Make::Stack { new, has_streams, .. } => {
                let (of_app, makes, faults) = (self.clone(), Arc::clone(&new), fault.clone());
                extensions.stack(
                    key,
                    move |keys| reads.stack_keys(keys),
                    move |(control, values): StackKeys, context| new((&control, &values), context, fault.clone()),
                );
                extensions.stream_stack(
                    key,
                    move |keys| if has_streams { of_app.stack_keys(keys) } else { Err(of_app.lacks_streams()) },
                    move |(control, values): StackKeys, context| makes((&control, &values), context, faults.clone()),
                );
            }
        }
    }

    /// Reads the congestion control and the parameters of a stack.
    fn stack_keys(&self, keys: &Map<String, Value>) -> Result<StackKeys, ParamError> {
        Ok((self.control(keys)?, Arc::from(self.values(keys)?)))
    }

    fn lacks_streams(&self) -> ParamError {
        let lacking = OF_STREAMS.map(|name| format!("{name}()")).join(", ");
        let found = format!("stack {}, which has no streams: it lacks {lacking} of dumbbell.h", self.name);
        ParamError::new("plugin", found, "a stack with streams, such as quinn or noq")
    }

    /// The congestion control of a stack that `keys` name.
    fn control(&self, keys: &Map<String, Value>) -> Result<String, ParamError> {
        let Make::Stack { controls, .. } = &self.make else { return Ok(String::new()) };
        match keys.get(CONTROL) {
            None => Ok(controls[0].clone()),
            Some(given) => {
                let found = controls.iter().find(|name| given.as_str() == Some(name));
                found.cloned().ok_or_else(|| ParamError::new(CONTROL, given, controls.join(", ")))
            }
        }
    }
}

/// Reads a stack that is called `name`, whose pointers stay.
fn read_stack(stack: &'static abi::CStack, name: Arc<str>) -> Result<Make, BadPlugin> {
    // SAFETY: the interface makes it null or such a list
    let controls = unsafe { names(stack.controls)? };
    let there = [
        stack.create.is_some(),
        stack.destroy.is_some(),
        stack.start.is_some(),
        stack.write.is_some(),
        stack.finish.is_some(),
        stack.datagram.is_some(),
        stack.wake.is_some(),
        stack.timer.is_some(),
        stack.stats.is_some(),
        stack.closed.is_some(),
    ];
    all_there(["create", "destroy", "start", "write", "finish", "datagram", "wake", "timer", "stats", "closed"], there)?;
    let of_streams = [stack.stream_write.is_some(), stack.stream_read.is_some(), stack.close.is_some(), stack.lost.is_some()];
    let has_streams = of_streams[0];
    if of_streams.contains(&true) {
        all_there(OF_STREAMS, of_streams)?;
    }
    Ok(Make::Stack {
        controls: controls.into(),
        has_streams,
        new: Arc::new(move |chosen, context, fault| PluginStack::new(stack, &name, chosen, context, fault)),
    })
}

fn all_there<const N: usize>(names: [&str; N], there: [bool; N]) -> Result<(), BadPlugin> {
    match there.iter().position(|&is_there| !is_there) {
        Some(missing) => Err(bad(format!("{}() is NULL; allowed: a function", names[missing]))),
        None => Ok(()),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
