//! Classes of traffic: flows that are alike.

use crate::{AppConfig, FlowConfig, Route, RunConfig, UdpConfig, UdpParams};
use dumbbell_core::app::{AppKind, StreamDirection};
use dumbbell_core::units::Duration;
use std::sync::Arc;

/// Largest number of connection classes; all further connections are in the last one.
pub const MAX_CLASSES: usize = 256;

/// Kind of the members of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassKind {
    /// Flows of `[[flows]]`.
    Flows,
    /// Short flows of one `[[web]]`.
    Web,
    /// UDP.
    Udp,
    /// Connections or datagrams of `[[app]]`.
    App,
}

impl ClassKind {
    /// As it stands in the tables.
    pub fn name(self) -> &'static str {
        match self {
            ClassKind::Flows => "flows",
            ClassKind::Web => "web",
            ClassKind::Udp => "udp",
            ClassKind::App => "app",
        }
    }
}

/// A class of traffic: flows that are alike.
#[derive(Clone, Debug)]
pub struct Class {
    /// Kind of its members.
    pub kind: ClassKind,
    /// Name of the congestion control; "udp" for UDP; of an application its name and that of its congestion control.
    pub cc: String,
    /// Base RTT.
    pub base_rtt: Duration,
    /// Which hops its members' packets pass.
    pub route: Arc<Route>,
}

/// The classes of a run, and which class everything belongs to.
#[derive(Clone, Debug, Default)]
pub struct Classes {
    /// Class by class.
    pub list: Vec<Class>,
    /// Class of each flow.
    pub of_flow: Vec<u16>,
    /// Class of each source of UDP.
    pub of_udp: Vec<u16>,
    /// Class of each process of short flows.
    pub of_web: Vec<u16>,
    /// Classes of each application, by [`StreamDirection::index`].
    pub of_app: Vec<[u16; 2]>,
}

impl Classes {
    /// Adds a class, or returns the last one if there are too many.
    fn add(&mut self, kind: ClassKind, cc: &str, base_rtt: Duration, route: &Arc<Route>) -> u16 {
        if self.list.len() < MAX_CLASSES {
            self.list.push(Class { kind, cc: cc.to_owned(), base_rtt, route: Arc::clone(route) });
        }
        (self.list.len() - 1) as u16
    }
}

impl RunConfig {
    /// Classes, numbered as they appear: flows by congestion control with its parameters, base RTT and ECN; UDP by its parameters; each
    /// process of short flows is its own; applications by all of their parameters, each way on its own.
    pub fn classes(&self) -> Classes {
        let mut classes = Classes::default();
        let mut known: Vec<(&FlowConfig, u16)> = Vec::new();
        for flow in &self.flows {
            let class = match known.iter().find(|(other, _)| other.is_like(flow)) {
                Some(&(_, class)) => class,
                None => {
                    let class = classes.add(ClassKind::Flows, flow.transport.name(), flow.params.base_rtt, &flow.route);
                    if known.len() < MAX_CLASSES {
                        known.push((flow, class));
                    }
                    class
                }
            };
            classes.of_flow.push(class);
        }
        let mut known_udp: Vec<(&UdpConfig, u16)> = Vec::new();
        for one in &self.udp {
            let of = |udp: &UdpParams| (udp.rate, udp.size, udp.ecn, udp.dscp, udp.echo, udp.base_rtt);
            let is_like = |other: &UdpConfig| {
                of(&other.params) == of(&one.params) && other.route == one.route && other.name() == one.name()
            };
            let class = match known_udp.iter().find(|(other, _)| is_like(other)) {
                Some(&(_, class)) => class,
                None => {
                    let class = classes.add(ClassKind::Udp, one.name(), one.params.base_rtt, &one.route);
                    if known_udp.len() < MAX_CLASSES {
                        known_udp.push((one, class));
                    }
                    class
                }
            };
            classes.of_udp.push(class);
        }
        for web in &self.web {
            let class = classes.add(ClassKind::Web, web.cc.name(), web.params.base_rtt, &web.route);
            classes.of_web.push(class);
        }
        let mut known_apps: Vec<(&AppConfig, [u16; 2])> = Vec::new();
        for app in &self.apps {
            let of = |one: &AppConfig| (one.params.base_rtt, one.params.ecn);
            let is_like = |other: &AppConfig| {
                of(other) == of(app) && other.spec == app.spec && other.cc == app.cc && other.routes == app.routes
            };
            let own = match known_apps.iter().find(|(other, _)| is_like(other)) {
                Some(&(_, own)) => own,
                None => {
                    let name = app.class_name();
                    let mut add = |way: StreamDirection| classes.add(ClassKind::App, &name, app.params.base_rtt, app.route(way));
                    let own = match app.spec.kind() {
                        // only reports go the other way
                        AppKind::Media => [add(StreamDirection::Response); 2],
                        _ => StreamDirection::ALL.map(&mut add),
                    };
                    if known_apps.len() < MAX_CLASSES {
                        known_apps.push((app, own));
                    }
                    own
                }
            };
            classes.of_app.push(own);
        }
        classes
    }
}
