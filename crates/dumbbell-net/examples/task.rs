//! Asynchronous ends in virtual time, in the style of turmoil and bach: tasks await datagrams and the clock, and time goes on when all of them wait.

mod toy;

use dumbbell_net::{Config, Ecn, Error, Frame, Net};
use std::cell::{Cell, RefCell};
use std::future::{poll_fn, Future};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use toy::{Receiver, Sender};

/// State that tasks share: the time, and the first time that one of them waits for.
#[derive(Default)]
struct Clock {
    now: Cell<Duration>,
    alarm: Cell<Option<Duration>>,
}

impl Clock {
    /// A task is to be polled at `time`.
    fn wake_at(&self, time: Option<Duration>) {
        self.alarm.set(self.alarm.get().into_iter().chain(time).min());
    }
}

/// One end of a pair of nets: a socket.
struct Socket {
    clock: Rc<Clock>,
    outgoing: Rc<RefCell<Net>>,
    incoming: Rc<RefCell<Net>>,
}

impl Socket {
    fn send(&self, datagram: Vec<u8>, ecn: Ecn) {
        self.outgoing.borrow_mut().push(self.clock.now.get(), Frame::udp(datagram.len()).ecn(ecn), datagram);
    }

    /// The next datagram, or nothing if none comes until `deadline`.
    async fn recv(&self, deadline: Option<Duration>) -> Option<(Vec<u8>, Ecn)> {
        poll_fn(|_| {
            let now = self.clock.now.get();
            if let Some(packet) = self.incoming.borrow_mut().pop(now) {
                return Poll::Ready(Some((packet.payload, packet.frame.ecn)));
            }
            if deadline.is_some_and(|deadline| deadline <= now) {
                return Poll::Ready(None);
            }
            self.clock.wake_at(deadline);
            Poll::Pending
        })
        .await
    }
}

/// Polls both tasks whenever something is due, until the first is done or nothing is due any more.
fn run_until<T>(
    clock: &Clock,
    nets: [&RefCell<Net>; 2],
    main: impl Future<Output = T>,
    other: impl Future<Output = ()>,
) -> Option<T> {
    let (mut main, mut other) = (pin!(main), pin!(other));
    let mut context = Context::from_waker(Waker::noop());
    loop {
        clock.alarm.set(None);
        if let Poll::Ready(result) = main.as_mut().poll(&mut context) {
            return Some(result);
        }
        if other.as_mut().poll(&mut context).is_ready() {
            return None;
        }
        // only now it is known what all have sent
        nets.iter().for_each(|net| clock.wake_at(net.borrow().next()));
        clock.now.set(clock.now.get().max(clock.alarm.get()?));
    }
}

async fn client(socket: Socket, mut sender: Sender) -> Sender {
    while !sender.is_done() {
        while let Some((datagram, ecn)) = sender.poll_transmit(socket.clock.now.get()) {
            socket.send(datagram, ecn);
        }
        match socket.recv(sender.poll_timeout()).await {
            Some((datagram, _)) => sender.handle(socket.clock.now.get(), &datagram),
            None => sender.handle_timeout(socket.clock.now.get()),
        }
    }
    sender
}

async fn server(socket: Socket) {
    let mut receiver = Receiver::default();
    while let Some((datagram, ecn)) = socket.recv(None).await {
        receiver.handle(&datagram, ecn);
        while let Some(answer) = receiver.poll_transmit() {
            socket.send(answer, Ecn::NotEct);
        }
    }
}

/// 2000 packets over Wi-Fi and FQ-CoDel; how long that took, and the RTT of the last.
pub fn run() -> Result<(Duration, Duration), Error> {
    let config = Config::parse(
        r#"
            rate = "20Mbit"
            link = "wifi"
            aqm = "fq_codel"
            delay = "5ms"
        "#,
    )?;
    let clock = Rc::new(Clock::default());
    let [there, back] = [1, 2].map(|seed| config.clone().seed(seed).build().map(RefCell::new).map(Rc::new));
    let (there, back) = (there?, back?);
    let socket = |outgoing: &Rc<_>, incoming: &Rc<_>| Socket {
        clock: Rc::clone(&clock),
        outgoing: Rc::clone(outgoing),
        incoming: Rc::clone(incoming),
    };
    let main = client(socket(&there, &back), Sender::new(2000));
    let sender = run_until(&clock, [&there, &back], main, server(socket(&back, &there))).expect("a sender that goes on");
    Ok((clock.now.get(), sender.rtt))
}

#[allow(dead_code)] // of the test that runs this
fn main() -> Result<(), Error> {
    let (time, rtt) = run()?;
    println!("{time:?}, the last RTT {rtt:?}");
    Ok(())
}
