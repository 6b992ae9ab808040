/* dumbbell.h: queue disciplines, congestion controls, those of video, and stacks from a shared library, version 5 of the interface.
 * Older plugins are still loaded: the functions of a plugin of version 4 end before `clone`; a plugin of version 3 has no `media` at its end, and its stack ends with `closed`, a control of version 2 has no `model`, a plugin of version 1 no `stack`.
 *
 * A plugin exports dumbbell_describe(), which returns a description that stays valid. All times are nanoseconds, all windows
 * segments. A function that is optional may be NULL. Functions are called by one thread at a time; `self` of one run is never
 * used by another. Equal calls must give equal answers: what is random comes from the seed that create() is given.
 *
 * Licence: MIT OR Apache-2.0.
 */
#ifndef DUMBBELL_H
#define DUMBBELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DUMBBELL_ABI 5u

typedef uint32_t dumbbell_flag; /* 0 or 1 */

/* --- parameters: keys of the plugin's table in an experiment file --------------------------------------------------- */

#define DUMBBELL_FLOAT 0u
#define DUMBBELL_INT 1u
#define DUMBBELL_BOOL 2u /* 0 or 1 */
#define DUMBBELL_TIME 3u /* ns; in a file "5ms" */
#define DUMBBELL_RATE 4u /* bit/s; in a file "10Mbit" */
#define DUMBBELL_SIZE 5u /* bytes; in a file "10kB" */

typedef struct {
  const char *name; /* letters, digits and _ */
  uint32_t kind;
  double value; /* default; whole numbers are exact up to 2^53 */
  double min, max;
  const char *unit; /* of an INT or FLOAT, such as "packets"; may be "" */
  const char *doc;  /* one line */
} dumbbell_param;

/* --- queue disciplines -------------------------------------------------------------------------------------------- */

#define DUMBBELL_NOT_ECT 0u
#define DUMBBELL_ECT1 1u
#define DUMBBELL_ECT0 2u
#define DUMBBELL_CE 3u

typedef struct {
  uint64_t id;      /* of this packet while it is in the queue; never 0 */
  uint64_t arrived; /* when the queue took it in */
  uint32_t flow;
  uint16_t length; /* bytes of the frame */
  uint8_t ecn;
  bool is_ack; /* an acknowledgement on its way back */
} dumbbell_packet;

typedef struct {
  uint64_t rate; /* of the link, bit/s */
  uint64_t seed; /* of the run and this queue */
} dumbbell_link;

/* The simulator. It keeps the packets: a plugin handles their ids, in lists of the simulator (numbers from 0) or its own. */
typedef struct dumbbell_host dumbbell_host;
struct dumbbell_host {
  /* Sets CE; returns 0 if the packet cannot have it, and is to be dropped instead. */
  int (*mark)(dumbbell_host *, uint64_t id);
  /* Drops a packet: the one that arrives, or one in the queue, which leaves its list. */
  void (*drop)(dumbbell_host *, uint64_t id);
  /* Puts the packet at the end of a list. */
  void (*push)(dumbbell_host *, uint32_t list, uint64_t id);
  /* First and last packet of a list, valid until the next call; NULL if it is empty. */
  const dumbbell_packet *(*first)(dumbbell_host *, uint32_t list);
  const dumbbell_packet *(*last)(dumbbell_host *, uint32_t list);
  /* What is in a list. */
  uint64_t (*packets)(dumbbell_host *, uint32_t list);
  uint64_t (*bytes)(dumbbell_host *, uint32_t list);
  /* In dequeue(): nothing leaves before `time`, which is later than now; return 0 then. For queues that shape. */
  void (*wait)(dumbbell_host *, uint64_t time);
};

typedef struct {
  void *(*create)(const dumbbell_link *, const double *params); /* NULL if it cannot */
  void (*destroy)(void *self);
  /* A packet arrives. It is in the queue then, unless it was dropped. */
  void (*enqueue)(void *self, dumbbell_host *, const dumbbell_packet *, uint64_t now);
  /* The id of the packet that leaves now; it leaves its list. 0: the queue is empty, or waits. */
  uint64_t (*dequeue)(void *self, dumbbell_host *, uint64_t now);
  /* Optional: packets of `flow` begin. Flows with equal hosts and ports are one. */
  void (*flow_starts)(void *self, uint32_t flow, uint32_t src_host, uint32_t dst_host, uint32_t ports, uint8_t dscp);
  /* Optional: the rate of the link changes. */
  void (*rate)(void *self, uint64_t rate, uint64_t now);
  /* Optional, both: when timer() is called next, UINT64_MAX for never. */
  uint64_t (*timer_at)(const void *self);
  void (*timer)(void *self, dumbbell_host *, uint64_t now);
  /* Optional: tells state by the names that record.queue takes, such as "p" or "count". */
  void (*state)(const void *self, void (*tell)(void *to, const char *name, double value), void *to);
  /* Optional: a copy that answers each later call as the instance does, whatever happens to either; NULL if it cannot be copied. A run whose plugins
   * have it can be copied on its way. The packets, their ids and the lists of the simulator are copied with the run. */
  void *(*clone)(const void *self);
} dumbbell_queue;

/* --- congestion controls ------------------------------------------------------------------------------------------ */

/* What a control reads of its connection. The hooks are those of Linux's tcp_congestion_ops, in the same order. */
typedef struct {
  uint64_t now;
  uint64_t delivered, delivered_ce; /* segments so far; those of ACKs with ECE */
  uint64_t sent, acked;             /* next new segment, oldest that is not acknowledged */
  uint64_t min_rtt_us;              /* smallest of the last 5 minutes; 0 before the first sample */
  uint32_t srtt_us;                 /* 0 before the first sample */
  uint32_t mdev_us;                 /* mean deviation of the RTT */
  uint32_t in_flight, lost, sacked, retransmitted;
  uint32_t prior_cwnd; /* cwnd when the last reduction began */
  uint32_t cwnd_max;   /* cwnd never exceeds this */
  uint32_t mss;        /* bytes of payload of a segment */
  uint32_t state;      /* 0 open, 1 disorder, 2 CWR, 3 recovery, 4 loss */
  dumbbell_flag cwnd_limited; /* the window was used, so that it may grow */
} dumbbell_conn;

/* What it steers. A window that is 0, or above 2^31 - 1 as after an underflow, ends the run. */
typedef struct {
  uint32_t cwnd;        /* 1 to 2^31 - 1; above cwnd_max it is cut to that */
  uint32_t ssthresh;    /* 1 to 2^31 - 1; slow start below this; at first 2^31 - 1 */
  uint64_t pacing_rate; /* bytes of payload per second. Only with DUMBBELL_BY_RATE and DUMBBELL_BY_BOTH, 1 or more: the connection is paced
                           from when it is set for the first time, whatever hosts.pacing says */
} dumbbell_steer;

typedef struct {
  uint32_t delivered; /* newly delivered segments */
  uint32_t lost;      /* newly thought lost */
  uint32_t marked;    /* newly marked with CE */
  dumbbell_flag ece;  /* the ACK has ECE, or CE was counted */
  int64_t rtt_us;     /* -1: no sample */
  /* of the rate sample, with rate_samples; interval_us -1: there is none */
  int64_t interval_us;
  uint32_t sample_delivered, sample_lost, sample_marked;
  dumbbell_flag app_limited;
  uint32_t prior_in_flight;
  uint32_t tx_in_flight; /* in flight when the segment of the sample was sent */
  uint64_t prior_delivered;
} dumbbell_sample;

#define DUMBBELL_BY_WINDOW 0u /* grows the window; its pacing rate follows from that, and counts only with hosts.pacing = "fq" */
#define DUMBBELL_BY_RATE 1u   /* the same, and sets the pacing rate itself */
#define DUMBBELL_BY_BOTH 2u   /* sets both in cong_control(), in every state */

#define DUMBBELL_UNKNOWN UINT64_MAX

/* What a control believes of its path, for traces and the judges of suite bbr. Names are those of draft-ietf-ccwg-bbr. Volumes are segments, rates
 * bytes of payload per second. When
 * model() is called, all is DUMBBELL_UNKNOWN, NaN, UINT32_MAX or NULL: what stays so is not known, or not set. */
typedef struct {
  const char *state; /* a name of letters, digits and _: of BBR startup, drain, probe_down, probe_cruise, probe_refill, probe_up or probe_rtt */
  uint64_t round;    /* round trips so far */
  uint64_t max_bw;   /* largest delivery rate of its filter */
  uint64_t bw;       /* what pacing and window follow */
  uint64_t bw_shortterm, inflight_shortterm, inflight_longterm; /* bounds */
  uint64_t min_rtt_us;
  uint64_t extra_acked;
  uint64_t inflight;      /* BBRInflight(1.0) */
  uint64_t probe_up_step; /* by how much inflight_longterm rises in a round while it is probed */
  double pacing_gain, cwnd_gain;
  double ecn_alpha;          /* average share of marked segments by which it answers ECN */
  dumbbell_flag full_bw_now; /* the rate grows no more, in this search for bandwidth */
  dumbbell_flag full_bw_reached, idle_restart;
} dumbbell_model;

#define DUMBBELL_ECHO_UNTIL_CWR 0u  /* RFC 3168 */
#define DUMBBELL_ECHO_ACCURATE 1u   /* RFC 9768 */
#define DUMBBELL_ECHO_PER_PACKET 2u /* RFC 8257 */

#define DUMBBELL_BY_ECN 0u
#define DUMBBELL_BY_LOSS 1u
#define DUMBBELL_BY_TIMEOUT 2u

typedef struct {
  uint32_t by;                /* DUMBBELL_BY_WINDOW, _RATE or _BOTH */
  dumbbell_flag rate_samples; /* 1: cong_control() gets rate samples */
  uint32_t codepoint;         /* of its data: DUMBBELL_ECT0, DUMBBELL_ECT1, or DUMBBELL_NOT_ECT if it has no answer to CE */
  dumbbell_flag ecn_required; /* 1: it asks for ECN whatever the host does, as DCTCP */
  uint32_t echo;              /* DUMBBELL_ECHO_... that it expects of the receiver */
  void *(*create)(uint64_t seed, uint64_t flow, const double *params); /* NULL if it cannot */
  void (*destroy)(void *self);
  /* Optional: the connection is established. */
  void (*init)(void *self, const dumbbell_conn *, dumbbell_steer *);
  /* Grows the window by `acked` newly delivered segments, outside of congestion. Not with DUMBBELL_BY_BOTH. */
  void (*cong_avoid)(void *self, const dumbbell_conn *, dumbbell_steer *, uint32_t acked);
  /* The threshold after congestion, 1 or more; once an episode, before the window falls. */
  uint32_t (*ssthresh)(void *self, const dumbbell_conn *, const dumbbell_steer *, uint32_t by);
  /* Sets window and pacing rate after each ACK: with DUMBBELL_BY_BOTH, otherwise NULL. */
  void (*cong_control)(void *self, const dumbbell_conn *, dumbbell_steer *, const dumbbell_sample *);
  /* Optional: segments were acknowledged; rtt_us -1: no sample. */
  void (*pkts_acked)(void *self, const dumbbell_conn *, dumbbell_steer *, uint32_t acked, int64_t rtt_us);
  /* Optional: an ACK arrived; marked: CE packets that it newly counts with AccECN, -1 without. */
  void (*in_ack_event)(void *self, const dumbbell_conn *, dumbbell_steer *, uint32_t ece, int64_t marked);
  /* Optional: the connection enters another state. */
  void (*set_state)(void *self, const dumbbell_conn *, dumbbell_steer *, uint32_t state);
  /* Optional: a reduction was spurious; the window to go back to. Default: the larger of cwnd and prior_cwnd. */
  uint32_t (*undo_cwnd)(void *self, const dumbbell_conn *, const dumbbell_steer *);
  /* Optional: tells state and model. It is asked often, and must change nothing. */
  void (*model)(const void *self, const dumbbell_conn *, dumbbell_model *);
  /* Optional: as of a queue. */
  void *(*clone)(const void *self);
} dumbbell_control;

/* --- stacks: a transport of its own, as QUIC is ------------------------------------------------------------------- */

/* One connection, both ends of it. For a flow ([[flows]]) the client connects and sends, by write() and finish(); the server's application reads
 * everything at once. A function that has `side` acts for that end, the others for the client. Datagrams keep their bytes: what one end sends, the
 * net delivers to the other, or drops, or delivers with CE.
 *
 * For an application ([[app]]) a stack needs streams, the four functions at its end; write() and finish() are not called then. Either end may write to
 * stream DUMBBELL_ONE_WAY: that is its own, and the other end only reads it. Streams 0, 1, 2 ... go both ways: the client opens them, in this order, when it first
 * writes to them, and the server writes to one when it has read something from it. Both applications read everything at once. What is written before the
 * handshake is over waits for it, and so does a stream that the other end does not allow yet. */

#define DUMBBELL_CLIENT 0u
#define DUMBBELL_SERVER 1u

#define DUMBBELL_ONE_WAY UINT64_MAX

typedef struct {
  uint64_t seed;       /* of the run and this flow */
  uint64_t flow;       /* its number in the run */
  const char *control; /* one of `controls`, valid during create() */
  uint32_t payload;    /* bytes of UDP payload that fit into a full frame */
  dumbbell_flag ecn;   /* 1: the hosts let it use ECN */
} dumbbell_flow;

typedef struct dumbbell_wire dumbbell_wire;
struct dumbbell_wire {
  /* Sends a datagram now; the payload is copied during the call. `ecn`: DUMBBELL_NOT_ECT, _ECT1 or _ECT0. */
  void (*send)(dumbbell_wire *, const uint8_t *payload, uint32_t length, uint32_t ecn);
};

/* What the client counts and believes, and what the server has received. Counts begin with the connection and only grow. What a stack does
 * not tell is UINT64_MAX. Windows are bytes, times nanoseconds. */
typedef struct {
  uint64_t received;          /* payload that the server's application has read, in order */
  uint64_t cwnd, ssthresh;
  uint64_t in_flight;
  uint64_t pacing_rate;       /* bytes per second */
  uint64_t rtt, min_rtt;      /* smoothed, smallest; UINT64_MAX before the first sample */
  uint64_t lost;              /* packets that it took for lost */
  uint64_t spurious;          /* those of them that had arrived */
  uint64_t congestion_events; /* reductions of the window */
  uint64_t acks;              /* packets that carried acknowledgements to it */
  uint64_t ce;                /* CE marks that the server reported */
  uint64_t timeouts;          /* probe timeouts (RFC 9002) */
  uint64_t state;             /* of the control, a number of its own */
  uint64_t connected;         /* 1 once the handshake is over */
} dumbbell_stack_stats;

typedef struct {
  const char *const *controls; /* its congestion controls, the default first, NULL at the end */
  void *(*create)(const dumbbell_flow *, const double *params); /* NULL if it cannot */
  void (*destroy)(void *self);
  /* The client begins to connect. */
  void (*start)(void *self, dumbbell_wire *, uint64_t now);
  /* Its application has so many bytes more to send; UINT64_MAX: without end. */
  void (*write)(void *self, dumbbell_wire *, uint64_t bytes, uint64_t now);
  /* It has nothing more to send; what is written already still goes. `end` 0: what is written but not yet sent is forgotten. */
  void (*finish)(void *self, dumbbell_wire *, uint32_t end, uint64_t now);
  /* A datagram reaches `side`. */
  void (*datagram)(void *self, dumbbell_wire *, uint32_t side, const uint8_t *payload, uint32_t length, uint32_t ecn, uint64_t now);
  /* When timer() of `side` is called next, UINT64_MAX for never; asked after each other call. A time that has passed is now. After ten
   * calls of timer() in a row that send nothing and ask for another at once, the next comes 1 us later; a thousand of them, or 20,000 that send, are
   * a mistake. */
  uint64_t (*wake)(const void *self, uint32_t side);
  void (*timer)(void *self, dumbbell_wire *, uint32_t side, uint64_t now);
  void (*stats)(const void *self, dumbbell_stack_stats *);
  /* NULL, or why the connection was closed before its end: one line, valid until the next call. */
  const char *(*closed)(const void *self);
  /* Optional, with the three below: all or none. `side` has so many bytes more to send on a stream; `last` 1: and nothing behind them. */
  void (*stream_write)(void *self, dumbbell_wire *, uint32_t side, uint64_t stream, uint64_t bytes, uint32_t last, uint64_t now);
  /* How many bytes more the application of `side` has read from a stream, in order, whose number is put into `stream`. Asked after each other call until it is 0. */
  uint64_t (*stream_read)(void *self, uint32_t side, uint64_t *stream);
  /* The client closes the connection: what is not sent is forgotten. Datagrams and timers go on until wake() of both sides is UINT64_MAX. */
  void (*close)(void *self, dumbbell_wire *, uint64_t now);
  /* Packets that `side` has taken for lost so far; UINT64_MAX: it does not say. */
  uint64_t (*lost)(const void *self, uint32_t side);
  /* Optional: as of a queue. Datagrams that are under way are copied with the run. */
  void *(*clone)(const void *self);
} dumbbell_stack;

/* --- congestion controls of video -------------------------------------------------------------------------------- */

/* The sender's end of a control whose receiver reports each packet (RFC 8888). The simulator has encoder, pacer, packets, receiver and viewer; the
 * control says how fast encoder and pacer are. The ends have clocks of their own, a constant apart: only differences of `arrived` mean something. */

typedef struct {
  uint64_t number; /* from 0, without gaps */
  uint64_t sent;
  int64_t arrived; /* to 1/1024 s; -1: it had not when the receiver reported, and counts as lost */
  uint32_t bytes;  /* payload of RTP */
  uint32_t ecn;    /* that it arrived with */
} dumbbell_media_packet;

typedef struct {
  uint64_t interval; /* between two reports of the receiver, 1 ms to 60 s */
  void *(*create)(uint64_t seed, uint64_t number, const double *params); /* of a video of the run; NULL if it cannot */
  void (*destroy)(void *self);
  /* Rate for the encoder, asked for each frame, and rate of the pacer, asked for each packet: 1 kbit/s to 1 Tbit/s, in bit/s. `buffered` bytes wait to
   * be sent. */
  uint64_t (*encoder_rate)(const void *self, uint64_t buffered);
  uint64_t (*pacing_rate)(const void *self, uint64_t buffered);
  /* A report has come, on `count` packets in the order of their numbers, none of which was reported before. It may be empty. Packets of reports that
   * were lost are missing. `rtt`: since the last packet was sent that had arrived when the report was made. */
  void (*feedback)(void *self, const dumbbell_media_packet *packets, uint64_t count, uint64_t rtt, uint64_t now);
  /* Optional: the video starts. */
  void (*start)(void *self, uint64_t now);
  /* Optional: a packet is sent; `arrived` is -1. */
  void (*packet_sent)(void *self, const dumbbell_media_packet *);
  /* Optional: whether a packet of so many bytes may be sent now, as far as a window says. Asked after each other call. */
  dumbbell_flag (*may_send)(const void *self, uint32_t bytes);
  /* Optional, both: when timer() is called next, UINT64_MAX for never. After a call of timer() it is later than now. */
  uint64_t (*timer_at)(const void *self);
  void (*timer)(void *self, uint64_t now);
  /* Optional: as of a queue. */
  void *(*clone)(const void *self);
} dumbbell_media;

/* --- the plugin --------------------------------------------------------------------------------------------------- */

typedef struct {
  uint32_t abi;       /* DUMBBELL_ABI */
  uint32_t params;    /* how many */
  const char *name;   /* in tables and figures: letters, digits, - and _; of a stack also . */
  const char *title;  /* one line */
  const char *source; /* where it is specified */
  const dumbbell_param *param;
  const dumbbell_queue *queue;     /* one of these, */
  const dumbbell_control *control; /* and NULL for the others */
  const dumbbell_stack *stack;
  const dumbbell_media *media;
} dumbbell_plugin;

const dumbbell_plugin *dumbbell_describe(void);

#ifdef __cplusplus
}
#endif
#endif
