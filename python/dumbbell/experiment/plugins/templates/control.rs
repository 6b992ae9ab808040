//! @NAME@: some segments more a round trip, and a share of the window after congestion.

mod dumbbell;

use dumbbell::{export_control, Conn, Control, Kind, Param, Steer};

#[derive(Clone)]
struct Aimd {
    increase: f64,
    decrease: f64,
    credit: f64,
}

impl Control for Aimd {
    const NAME: &'static str = "@NAME@";
    const TITLE: &'static str = "AIMD";
    const SOURCE: &'static str = "its author";
    const PARAMS: &'static [Param] = &[
        Param { name: "increase", kind: Kind::Float, value: 1.0, min: 0.01, max: 100.0, unit: "segments", doc: "Growth in a round trip." },
        Param { name: "decrease", kind: Kind::Float, value: 0.5, min: 0.1, max: 0.95, unit: "", doc: "Share of the window that congestion leaves." },
    ];

    fn new(_seed: u64, _flow: u64, params: &[f64]) -> Aimd {
        Aimd { increase: params[0], decrease: params[1], credit: 0.0 }
    }

    fn cong_avoid(&mut self, conn: &Conn, steer: &mut Steer, mut acked: u32) {
        if conn.cwnd_limited == 0 {
            return;
        }
        if steer.cwnd < steer.ssthresh {
            // slow start
            let grown = acked.min(steer.ssthresh - steer.cwnd);
            steer.cwnd += grown;
            acked -= grown;
        }
        self.credit += self.increase * f64::from(acked) / f64::from(steer.cwnd);
        let whole = self.credit.floor();
        self.credit -= whole;
        steer.cwnd += whole as u32;
    }

    fn ssthresh(&mut self, _conn: &Conn, steer: &Steer, _by: u32) -> u32 {
        ((f64::from(steer.cwnd) * self.decrease) as u32).max(2)
    }

    fn copy(&self) -> Option<Aimd> {
        Some(self.clone())
    }
}

export_control!(Aimd);
