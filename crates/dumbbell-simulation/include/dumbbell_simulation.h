/* dumbbell_simulation.h: simulations that go on step by step.
 *
 * A simulation is one run. Between two steps a program looks at it, changes it, copies it and returns to an earlier state; stepped in any pieces
 * it measures what the whole run measures, to the same bits. A configuration is canonical JSON as in the README of the crate
 * dumbbell-sim: times in ns, rates in bit/s, sizes in bytes. Times are nanoseconds since the start of the run.
 *
 * A function that fails writes why into `error`, one line that ends with 0, as much of it as fits into `size` bytes; `error` may be NULL. A simulation is
 * used by one thread at a time; different simulations know nothing of each other. Text that a function returns is
 * valid until the next call with the same simulation.
 *
 * Licence: MIT OR Apache-2.0.
 */
#ifndef DUMBBELL_SIMULATION_H
#define DUMBBELL_SIMULATION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dumbbell_simulation dumbbell_simulation;

/* What happened to a packet at a hop. The names stay valid. */
typedef struct {
  uint64_t time;
  uint64_t number;    /* of the segment or datagram; of an acknowledgement that of its place */
  const char *hop;
  const char *event;  /* arrival, enqueue, mark, drop, dequeue or departure */
  const char *kind;   /* which mark or drop; "" for others */
  const char *reason; /* why it was marked, or where it was dropped; "" for others */
  uint32_t flow;
  uint16_t length;    /* of the frame, bytes */
  uint16_t is_ack;    /* 1: an acknowledgement on its way back */
} dumbbell_simulation_event;

/* A simulation that has not begun; NULL if the configuration cannot be used. With `events` other than 0 it keeps the events of packets. */
dumbbell_simulation *dumbbell_simulation_new(const char *config, int events, char *error, size_t size);
void dumbbell_simulation_free(dumbbell_simulation *);

/* Lets everything happen until `until`, that instant included; UINT64_MAX is the end of the run. Returns 1 if the run is over, 0 if not, and -1 if it failed: then only
 * dumbbell_simulation_free() may follow. */
int dumbbell_simulation_step(dumbbell_simulation *, uint64_t until, char *error, size_t size);

/* How far it has come. */
uint64_t dumbbell_simulation_time(const dumbbell_simulation *);

/* The present state as JSON: time_ms, counters and state of the queue, and endpoints with payload, cwnd and so on. NULL after dumbbell_simulation_finish(). */
const char *dumbbell_simulation_view(dumbbell_simulation *);

/* Changes what `key`, as in an experiment file, stands for to `value`, canonical JSON: "bottleneck.rate" to "1000000", "flows[0].stop" to "null",
 * which is now, "bottleneck.aqm" to "{\"name\": \"codel\"}" and "flows[0].cc" to "{\"name\": \"reno\"}", which take the place of the present ones. Returns 0, and -1 if that cannot be; then nothing has changed. */
int dumbbell_simulation_set(dumbbell_simulation *, const char *key, const char *value, char *error, size_t size);

/* A copy of the simulation, which goes on to the same bits; NULL if there is none. It is a state to return to, any number of times, or a simulation to go on with. */
dumbbell_simulation *dumbbell_simulation_snapshot(const dumbbell_simulation *, char *error, size_t size);

/* Returns to the state of a snapshot, which stays. Returns 0, and -1 if that cannot be. */
int dumbbell_simulation_restore(dumbbell_simulation *, const dumbbell_simulation *snapshot, char *error, size_t size);

/* Takes up to `room` events of packets that were not taken yet, in order; returns how many. */
size_t dumbbell_simulation_events(dumbbell_simulation *, dumbbell_simulation_event *to, size_t room);

/* Goes on to the end and returns the measurements as JSON: summary, digest and tables, whose columns are lists. Then only dumbbell_simulation_free() may follow.
 * NULL if the run failed. */
const char *dumbbell_simulation_finish(dumbbell_simulation *, char *error, size_t size);

#ifdef __cplusplus
}
#endif
#endif
