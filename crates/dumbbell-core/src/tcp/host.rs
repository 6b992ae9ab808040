//! Switches of a host's TCP: one declaration, which sender and receiver read directly.
//!
//! To add a switch: one declaration in [`HostParams`], and its use. If kernels differ in it, one row in `host/profiles.rs`.

mod profiles;

use crate::packet::HEADERS;
use crate::units::Duration;
use crate::{choice, params};
pub use profiles::profiles;

choice! {
    /// Which kernel a host runs.
    pub enum Profile {
        /// Linux 6.12, the newest of its long-term releases.
        Linux612 = "linux-6.12",
        /// Linux 6.1, as 6.1.192: it has much of what later releases changed.
        Linux61 = "linux-6.1",
        /// Linux 5.10.
        Linux510 = "linux-5.10",
        /// Linux 5.4.
        Linux54 = "linux-5.4",
        /// Linux 5.1, on which the kernel of the SCE drafts is based.
        Linux51 = "linux-5.1",
        /// Linux 3.19, of the first L4S testbed, as far as known. Not modelled: its loss detection without RACK.
        Linux319 = "linux-3.19",
        /// FreeBSD 13, as far as known. Not modelled: its RTT estimator and clock, its delayed-ACK timer, its growth of socket buffers, its
        /// loss detection without RACK.
        FreeBsd13 = "freebsd-13",
    }
}

choice! {
    /// Segmentation offload of the sending host.
    pub enum Offload {
        /// One segment at a time.
        None = "none",
        /// Bursts as Linux's TSO auto-sizing and deferral make them; since 4.17 Linux does so for every connection, in
        /// software where the device cannot.
        Tso = "tso",
        /// Bursts as with `tso`, and all hosts on the way take a burst as one packet, as Linux does with GSO and GRO on every device: an htb shaper
        /// lets it pass at once and runs into debt, a receiver acknowledges it once, `bfifo` takes or drops the whole. Other queue
        /// disciplines still decide on single packets; a step marks all or none of a burst anyway. Over a path with stages, and in front
        /// of a `link`, it is `tso`.
        Gso = "gso",
    }
}

choice! {
    /// How the sending application writes.
    pub enum Writes {
        /// Blocks of 128 KB, each when a third of the send buffer is free: with select or poll, as iperf3.
        Polling = "polling",
        /// Whenever there is memory: on a blocking socket, as netperf, which Flent runs. Not modelled: where one write ends and the next
        /// begins, on which PSH depends.
        Blocking = "blocking",
    }
}

choice! {
    /// End that opens the connection.
    pub enum Opener {
        /// The sender of the data: an upload. Its SYN and the handshake's last packet pass the bottleneck; a SYN that is sent again does not ask for
        /// ECN.
        Sender = "sender",
        /// The receiver of the data: a download. Only the SYN-ACK passes the bottleneck, and what was negotiated stays if it is lost.
        Receiver = "receiver",
    }
}

choice! {
    /// Flows that are paced.
    pub enum Pacing {
        /// Flows with a congestion control that asks for it.
        Cc = "cc",
        /// Every flow, as under the fq queue discipline.
        Fq = "fq",
    }
}

choice! {
    /// How many segments recovery may send for each one delivered while the pipe is below `ssthresh`.
    pub enum Prr {
        /// RFC 6937: slow-start bound only after an ACK that advances past a retransmission (Linux up to 5.14).
        Rfc6937 = "rfc6937",
        /// RFC 6937bis: slow-start bound whenever nothing was newly lost (Linux since 5.15).
        Rfc6937bis = "rfc6937bis",
    }
}

choice! {
    /// How the window falls after a CE mark.
    pub enum EcnReduction {
        /// By proportional rate reduction, over a round trip (Linux).
        Prr = "prr",
        /// At once (RFC 3168 section 6.1.2, FreeBSD): the sender is silent until enough has left the network.
        Immediate = "immediate",
    }
}

params! {
    /// Switches of both ends' TCP.
    pub struct HostParams {
        /// Kernel that sets the switches which are not set themselves, and parameters of congestion controls. Before Linux 6.3, small packets also
        /// take another amount of a queue's memory.
        profile: Profile = Profile::Linux612, unit "", source "tables in tcp/host/profiles.rs";
        /// Flows ask for ECN; hosts accept it from whoever asks. DCTCP and Prague always do, as they need it.
        ecn: bool = false, unit "", source "sysctl tcp_ecn: the default, 2, accepts ECN and asks for none; 1 asks";
        /// Acknowledge every second full segment instead of each.
        delayed_ack: bool = true, unit "", source "RFC 5681 section 4.2; Linux tcp_input.c";
        /// Bursts of the sending host.
        offload: Offload = Offload::Tso, unit "", source "Linux tcp_tso_autosize, tcp_tso_should_defer";
        /// Flows that are paced.
        pacing: Pacing = Pacing::Cc, unit "", source "sch_fq paces every flow at the socket's pacing rate";
        /// End that opens the connection.
        opener: Opener = Opener::Sender, unit "", source "RFC 9293 section 3.5; Linux tcp_ecn_clear_syn, tcp_rtx_synack";
        /// How the sending application writes.
        writes: Writes = Writes::Polling, unit "", source "iperf3 (select, 128 KB), netperf (blocking); Linux tcp_sendmsg_locked, sk_stream_write_space";
        /// Initial window.
        initial_window: u32 = 10, unit "segments", range 1_u32, 10_000_u32, source "RFC 6928; Linux TCP_INIT_CWND";
        /// Slow-start threshold that an earlier connection to the same host left behind; unset: none did.
        initial_ssthresh: Option<u32> = None, unit "segments", range 2_u32, 1_000_000_000_u32, source "Linux tcp_init_metrics; sysctl tcp_no_metrics_save = 0 is the default";
        /// Payload of a full segment. All devices have the MTU that follows, 52 B more: full frames, 66 B more, are what queues take for their quanta,
        /// thresholds and limits, and the most that a datagram may have.
        mss: u32 = 1448, unit "bytes", range 88_u32, 8948_u32, source "MTU 1500 - 20 (IPv4) - 32 (TCP with timestamps)";
        /// Bytes in the send buffers of all flows from which on none of them grows; unset: no limit.
        memory: Option<u64> = None, unit "bytes", range 4096_u64, 1_u64 << 50, source "sysctl tcp_mem[0] in pages of 4096 B; tcp_should_expand_sndbuf, Linux since 2.6";
        /// Largest send buffer; it holds bookkeeping as well as payload.
        send_buffer: u64 = 4_194_304, unit "bytes", range 8192_u64, 1_u64 << 40, source "sysctl tcp_wmem[2]";
        /// Largest receive buffer; about two thirds of it are the largest window with 1448 B. A connection begins with 128 KiB, even if this is less.
        receive_buffer: u64 = 6_291_456, unit "bytes", range 8192_u64, 1_u64 << 40, source "sysctl tcp_rmem[2]";
        /// Bursts grow as the path gets shorter than 16 ms.
        tso_rtt: bool = true, unit "", source "sysctl tcp_tso_rtt_log, Linux since 5.18; false for older kernels";
        /// The sender defers a burst only if the next ACK is due within 1 ms, instead of whenever half a round trip has passed.
        tso_defer_near: bool = true, unit "", source "tcp_tso_should_defer, Linux 6.12.117 and 6.1.192; false for older kernels, since 4.20";
        /// A burst goes on into the next socket buffer, and does not end with the one that it began in.
        burst_across_buffers: bool = true, unit "", source "tcp_grow_skb, Linux since 6.10; false for older kernels";
        /// The send buffer may grow after every burst, not only when all is sent that may be.
        expand_between_bursts: bool = true, unit "", source "tcp_check_space in tcp_event_new_data_sent, Linux since 5.18; false for older kernels";
        /// The sender pushes the last segment of every burst of two and more.
        push_bursts: bool = true, unit "", source "Linux since 5.5 (__tcp_transmit_skb); false for older kernels";
        /// The receiver echoes SCE marks as ESCE, ahead of any delayed ACK when they begin or end.
        sce_feedback: bool = false, unit "", source "draft-grimes-tcpm-tcpsce; sysctl tcp_sce";
        /// The receiver of DCTCP acknowledges the packet at once with which CE begins or ends, not only what came before it.
        ack_ce_change: bool = true, unit "", source "dctcp_ece_ack_update, Linux since 4.18; false for older kernels; RFC 8257 section 3.2";
        /// Every segment and ACK of a connection with AccECN carries the option, which takes 12 B of the payload.
        accecn_option: bool = true, unit "", source "RFC 9768 section 3.2.3; sysctl tcp_ecn_option = 2";
        /// The receiver acknowledges the last segment of a write at once, even if it is full.
        ack_push: bool = true, unit "", source "Linux since 6.6 and in 6.1.192 (tcp_measure_rcv_mss); false for older kernels";
        /// The congestion control is called for an ACK before the scoreboard is cleaned, and not after.
        early_ack_event: bool = false, unit "", source "tcp_ack: in_ack_event after tcp_clean_rtx_queue, Linux 6.12.117 and 6.1.192; true for older kernels";
        /// The receiver offers the fraction of its buffer that holds payload, instead of half.
        window_by_payload: bool = true, unit "", source "scaling_ratio in tcp_win_from_space, Linux since 6.6; false for older kernels (sysctl tcp_adv_win_scale = 1)";
        /// The receiver takes no round trip of 0 ms from timestamps, instead of 1 ms.
        receiver_rtt_not_zero: bool = true, unit "", source "tcp_rcv_rtt_measure_ts, Linux 6.12; false for older kernels";
        /// The delay of an ACK ends before the peer's shortest retransmission timeout, and the estimate behind it is 200 ms at the most.
        ack_delay_bound: bool = true, unit "", source "tcp_delack_max, tcp_event_data_recv, Linux 6.12; false for older kernels";
        /// Proportional rate reduction.
        prr: Prr = Prr::Rfc6937bis, unit "", source "Linux tcp_cwnd_reduction";
        /// How the window falls after a CE mark.
        ecn_reduction: EcnReduction = EcnReduction::Prr, unit "", source "Linux tcp_enter_cwr; FreeBSD cc_newreno.c";
        /// Hold back selective acknowledgements while data is out of order.
        sack_compression: bool = true, unit "", source "sysctl tcp_comp_sack_nr = 44, tcp_comp_sack_delay_ns = 1 ms, since Linux 4.18";
        /// How much later than due the timer of SACK compression runs.
        sack_compression_slack: Duration = Duration::from_micros(100), unit "", range Duration::ZERO, Duration::from_millis(100), source "sysctl tcp_comp_sack_slack_ns, Linux since 5.8; 0 for older kernels";
        /// An ACK that is held back leaves before a block that it has to report would have so many newer ones ahead of it.
        sack_blocks_held: u32 = 2, unit "blocks", range 1_u32, 4_u32, source "TCP_SACK_BLOCKS_EXPECTED in tcp_sack_new_ofo_skb, Linux since 5.8; 4 for older kernels";
        /// Number of timeouts of a SYN that do not double the next one.
        syn_linear_timeouts: u32 = 4, unit "", range 0_u32, 100_u32, source "sysctl tcp_syn_linear_timeouts, Linux since 6.5; 0 for older kernels";
        /// Detect spurious retransmission timeouts.
        frto: bool = true, unit "", source "RFC 5682; sysctl tcp_frto";
        /// Shrink the window after an idle period longer than the RTO.
        slow_start_after_idle: bool = true, unit "", source "sysctl tcp_slow_start_after_idle; RFC 5681 section 4.1";
        /// Smallest retransmission timeout beyond the smoothed RTT.
        rto_min: Duration = Duration::from_millis(200), unit "", range Duration::from_millis(1), Duration::from_secs(120), source "Linux TCP_RTO_MIN";
        /// Pacing rate in slow start.
        pacing_ss_ratio: u32 = 200, unit "percent", range 10_u32, 1000_u32, source "sysctl tcp_pacing_ss_ratio";
        /// Pacing rate in congestion avoidance.
        pacing_ca_ratio: u32 = 120, unit "percent", range 10_u32, 1000_u32, source "sysctl tcp_pacing_ca_ratio";
    } over Profile;
}

impl HostParams {
    /// A full frame on a device of the run, bytes: Linux `psched_mtu`.
    pub fn full_frame(&self) -> u16 {
        self.mss as u16 + HEADERS
    }

    /// Floor of the variance term of the RTO, us.
    #[inline]
    pub(super) fn rto_min_us(&self) -> u32 {
        self.rto_min.as_micros() as u32
    }
}
