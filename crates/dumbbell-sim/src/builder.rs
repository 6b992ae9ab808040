//! A run with what a program brings along: queue disciplines, congestion controls, endpoints, listeners.

use crate::config::{RunConfig, BOTTLENECK};
use crate::engine::{over_bottleneck, over_tapped_bottleneck, Engine, Run, Threads};
use crate::extensions::{Extensions, PluginFault};
use crate::Sim;
use dumbbell_bottleneck::queue_disciplines;
use dumbbell_core::app::AppContext;
use dumbbell_core::aqm::{AnyAqm, Aqm, QueueContext};
use dumbbell_core::cc::{CcContext, CongestionControl};
use dumbbell_core::media::control::MediaControl;
use dumbbell_core::observe::Tap;
use dumbbell_core::param::ParamError;
use dumbbell_core::protocol::{Protocol, ProtocolContext};
use serde_json::{Map, Value};
use std::sync::Arc;

/// Listens to the packets of a hop.
pub type Listener = Box<dyn Tap + Send>;

/// Makes the listener of a hop from its name.
type ListenerOfHop<'a> = Box<dyn FnMut(&str) -> Listener + 'a>;

/// Whether packets are delivered as they are sent, as far as the environment says.
pub(crate) fn delivers_ahead() -> bool {
    std::env::var_os("DUMBBELL_DELIVERY").is_none_or(|value| value != "departure")
}

/// Gathers what a run needs; [`Sim::builder`] begins one.
pub struct Builder<'a> {
    config: &'a Value,
    extensions: Extensions,
    listeners: Option<ListenerOfHop<'a>>,
    delivers_ahead: bool,
    threads: Threads,
    is_changeable: bool,
}

impl<'a> Builder<'a> {
    pub(crate) fn new(config: &'a Value) -> Builder<'a> {
        let (extensions, threads) = (Extensions::default(), Threads::ONE);
        Builder { config, extensions, listeners: None, delivers_ahead: delivers_ahead(), threads, is_changeable: false }
    }

    /// All of these, instead of those so far.
    #[must_use]
    pub fn extensions(self, extensions: Extensions) -> Builder<'a> {
        Builder { extensions, ..self }
    }

    /// Adds the queue discipline that the configuration may call `name`: `read` reads its keys, `new` builds it. For a file as those of
    /// `dumbbell_core::aqm` are, `Params::from_json` and `State::new`.
    #[must_use]
    pub fn aqm<P: Clone + Send + Sync + 'static, A: Aqm + Send + 'static>(
        mut self,
        name: &str,
        read: impl Fn(&Map<String, Value>) -> Result<P, ParamError> + Send + Sync + 'static,
        new: impl Fn(P, &QueueContext) -> A + Send + Sync + 'static,
    ) -> Builder<'a> {
        self.extensions.aqm(name, read, new);
        self
    }

    /// Adds the congestion control that the configuration may call `name`: `read` reads its keys, `new` builds one for each connection.
    #[must_use]
    pub fn control<P: Clone + Send + Sync + 'static, C: CongestionControl + Send + 'static>(
        mut self,
        name: &str,
        read: impl Fn(&Map<String, Value>) -> Result<P, ParamError> + Send + Sync + 'static,
        new: impl Fn(P, &CcContext) -> C + Send + Sync + 'static,
    ) -> Builder<'a> {
        self.extensions.control(name, read, new);
        self
    }

    /// Adds the endpoint that an entry of `udp` may have as `protocol = { name }`: `read` reads its keys, `new` builds one for each flow. Of the
    /// entry's other keys, those of UDP's packets mean nothing then; `echo` allows answers.
    #[must_use]
    pub fn endpoint<P: Clone + Send + Sync + 'static, T: Protocol + 'static>(
        mut self,
        name: &str,
        read: impl Fn(&Map<String, Value>) -> Result<P, ParamError> + Send + Sync + 'static,
        new: impl Fn(P, &ProtocolContext) -> T + Send + Sync + 'static,
    ) -> Builder<'a> {
        self.extensions.endpoint(name, read, new);
        self
    }

    /// Adds the congestion control that a video may have as its `control`: `read` reads its keys, `new` builds one for each video.
    #[must_use]
    pub fn media_control<P: Clone + Send + Sync + 'static, T: MediaControl + 'static>(
        mut self,
        name: &str,
        read: impl Fn(&Map<String, Value>) -> Result<P, ParamError> + Send + Sync + 'static,
        new: impl Fn(P, &AppContext) -> T + Send + Sync + 'static,
    ) -> Builder<'a> {
        self.extensions.media_control(name, read, new);
        self
    }

    /// `listener` is called once with the name of each hop and gives what listens there. A run with listeners chooses its queue for each
    /// call, and is slower; what it measures is the same.
    #[must_use]
    pub fn listener<L: Tap + Send + 'static>(self, mut listener: impl FnMut(&str) -> L + 'a) -> Builder<'a> {
        Builder { listeners: Some(Box::new(move |hop| Box::new(listener(hop)))), ..self }
    }

    /// Whether packets are delivered as they are sent where the queue's verdict is known then. What is measured is the same, except for the count of events; by default they are, unless
    /// the environment variable `DUMBBELL_DELIVERY` is `departure`.
    #[must_use]
    pub fn delivers_ahead(self, delivers_ahead: bool) -> Builder<'a> {
        Builder { delivers_ahead, ..self }
    }

    /// The run may be changed while it is on its way ([`Sim::set`]). It delivers packets when they leave, on one thread, and is slower for that; what it measures is the same.
    #[must_use]
    pub fn changeable(self) -> Builder<'a> {
        Builder { is_changeable: true, ..self }
    }

    /// The run may use `count` threads. Its results are the same with any number. It uses them where that makes it faster: with many flows and thousands of packets in a base RTT through one
    /// queue and a serial link, without listeners, traces, short flows, datagrams, stages of paths, a limit of the memory of send buffers, or algorithms that a program
    /// brings along.
    #[must_use]
    pub fn threads(mut self, count: usize) -> Builder<'a> {
        self.threads.count = count.max(1);
        self
    }

    /// The run computes windows of time flow by flow wherever its results stay the same, even where that is slower and on one thread: for tests.
    #[doc(hidden)]
    #[must_use]
    pub fn always_windows(mut self) -> Builder<'a> {
        self.threads.always = true;
        self
    }

    /// The run, which has not begun.
    ///
    /// # Errors
    /// The first key that cannot be used.
    pub fn build(self) -> Result<Sim, ParamError> {
        let Builder { config, extensions, listeners, delivers_ahead, threads, is_changeable } = self;
        let config = RunConfig::read(config, &extensions)?;
        if is_changeable {
            let mut sim = build_run(config, listeners, extensions.fault, None)?;
            sim.allow_changes();
            return Ok(sim);
        }
        build_run(config, listeners, extensions.fault, Some((delivers_ahead, threads)))
    }
}

/// The run of `config`, which has not begun. It is `fixed`, with a way to deliver packets and threads, or may get another queue discipline.
pub(crate) fn build_run(
    config: RunConfig,
    listeners: Option<ListenerOfHop<'_>>,
    fault: PluginFault,
    fixed: Option<(bool, Threads)>,
) -> Result<Sim, ParamError> {
    let config = Arc::new(config);
    let aqms = queue_disciplines(&config)?;
    let end = config.end();
    let run = match listeners {
        Some(of_hop) => build_tapped_engine(config, aqms, of_hop),
        // A module for web pages has one engine for all queues: a page loads half as many bytes.
        None if cfg!(target_arch = "wasm32") => build_tapped_engine(config, aqms, Box::new(|_| Box::new(()))),
        None => build_engine(config, aqms, fixed),
    };
    Ok(Sim::from_run(run, end, fault))
}

fn build_tapped_engine(config: Arc<RunConfig>, mut aqms: Vec<AnyAqm>, mut of_hop: ListenerOfHop<'_>) -> Box<dyn Run> {
    if config.is_one_hop() {
        over_tapped_bottleneck(config, aqms.remove(0), of_hop(BOTTLENECK))
    } else {
        Box::new(Engine::over_hops(config, aqms, of_hop))
    }
}

fn build_engine(config: Arc<RunConfig>, mut aqms: Vec<AnyAqm>, fixed: Option<(bool, Threads)>) -> Box<dyn Run> {
    match fixed {
        _ if !config.is_one_hop() => Box::new(Engine::over_hops(config, aqms, |_| ())),
        None => over_tapped_bottleneck(config, aqms.remove(0), ()),
        Some((ahead, threads)) => {
            dumbbell_core::with_aqm!(aqms.remove(0), aqm => over_bottleneck(config, aqm, ahead, threads))
        }
    }
}
