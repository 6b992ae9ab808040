/* dumbbell_net.h: queue, link and propagation of a bottleneck for tests of a transport, without I/O.
 *
 * A net is one direction. Packets are pushed in, wait in a queue discipline in front of a link, propagate, and are popped at the
 * far end, with CE where the queue marked them. There is no clock and no thread: each call says what time it is. All times are
 * nanoseconds since any instant; they do not go back, and an earlier one counts as that of the last event. Equal calls give equal
 * answers. A net is used by one thread at a time; different nets know nothing of each other.
 *
 * Licence: MIT OR Apache-2.0.
 */
#ifndef DUMBBELL_NET_H
#define DUMBBELL_NET_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The ECN field (RFC 3168 section 5). */
#define DUMBBELL_NET_NOT_ECT 0u
#define DUMBBELL_NET_ECT1 1u
#define DUMBBELL_NET_ECT0 2u
#define DUMBBELL_NET_CE 3u

/* What dumbbell_net_next() returns of an empty net. */
#define DUMBBELL_NET_NEVER UINT64_MAX

/* Ethernet, IPv4 and UDP: add it to the payload of a datagram to get the length of its frame. */
#define DUMBBELL_NET_UDP_HEADERS 42u

typedef struct dumbbell_net dumbbell_net;

/* What queue and link see of a packet. */
typedef struct {
  uint32_t flow;   /* number of its flow, any */
  uint16_t length; /* of the frame: Ethernet header, without FCS, bytes; less than 14 counts as 14 */
  uint8_t ecn;     /* DUMBBELL_NET_...; other bits are not looked at */
  uint8_t zero;
} dumbbell_net_frame;

/* A packet that has come out. */
typedef struct {
  uint64_t at;          /* when, ns */
  const uint8_t *bytes; /* what was pushed; valid until the next call with this net, and NULL if that was nothing */
  size_t size;
  dumbbell_net_frame frame; /* with the ECN field that the net made of it */
} dumbbell_net_arrival;

/* What a net has counted and what it holds.
 * pushed = popped + dropped_overflow + dropped_aqm + lost + held at all times. */
typedef struct {
  uint64_t pushed;
  uint64_t popped;
  uint64_t departed; /* packets that left the link, */
  uint64_t departed_bytes;
  uint64_t dropped_overflow; /* the queue was full */
  uint64_t dropped_aqm;
  uint64_t lost; /* by stages of path and behind */
  uint64_t ce_marks; /* those on packets that were CE already included, as Linux counts them */
  uint64_t sce_marks;
  uint64_t sent;       /* packets that the queue gave to the link, */
  uint64_t sojourn_ns; /* and the time that these spent in the queue, all together */
  uint64_t queued;     /* packets in the queue now, */
  uint64_t queued_bytes;
  uint64_t held; /* anywhere in the net now, those included that have come out and were not popped */
} dumbbell_net_counters;

/* A net of the bottleneck that `text` describes: the keys of an experiment's [bottleneck], TOML in UTF-8, such as
 *     "rate = '10Mbit'\naqm = 'codel'\ndelay = '10ms'"
 * All that is random comes from `seed`; 1 is what experiments have. The net begins at `start`, ns: changes of rate and traces count
 * from then, and an earlier time counts as `start`. Give the time of your clock: a queue discipline with a clock of its own, such as
 * PIE, goes through each of its ticks since then. NULL if the text cannot be used; then `error`, if it is not NULL, gets the line,
 * key, what was found and what is allowed, cut to `size` bytes, 0 at the end included. */
dumbbell_net *dumbbell_net_new(const char *text, uint64_t seed, uint64_t start, char *error, size_t size);

/* Frees a net and what is in it; NULL is nothing. */
void dumbbell_net_free(dumbbell_net *net);

/* A packet comes to the bottleneck at `now`, with `size` bytes that are copied; `bytes` may be NULL if `size` is 0. Returns 1 if it
 * was taken in, and 0 if it was dropped. One that was taken in may still be dropped later. */
int dumbbell_net_push(dumbbell_net *net, uint64_t now, dumbbell_net_frame frame, const void *bytes, size_t size);

/* The next packet that has come out by `now`. Returns 1 and fills `arrival`, or returns 0: there is none. */
int dumbbell_net_pop(dumbbell_net *net, uint64_t now, dumbbell_net_arrival *arrival);

/* When to call dumbbell_net_pop() next, ns; DUMBBELL_NET_NEVER if nothing is in the net. */
uint64_t dumbbell_net_next(const dumbbell_net *net);

/* Fills `counters`. */
void dumbbell_net_count(const dumbbell_net *net, dumbbell_net_counters *counters);

#ifdef __cplusplus
}
#endif
#endif
