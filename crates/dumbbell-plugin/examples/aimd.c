/* One segment more a round trip, and a share of the window after congestion. */
#include "dumbbell.h"
#include <stdlib.h>

typedef struct {
  double increase, decrease, credit;
} aimd;

static void *create(uint64_t seed, uint64_t flow, const double *params) {
  (void)seed, (void)flow;
  aimd *self = malloc(sizeof *self);
  if (self) *self = (aimd){params[0], params[1], 0};
  return self;
}

static void cong_avoid(void *this, const dumbbell_conn *conn, dumbbell_steer *steer, uint32_t acked) {
  aimd *self = this;
  if (!conn->cwnd_limited) return;
  if (steer->cwnd < steer->ssthresh) { /* slow start */
    uint32_t room = steer->ssthresh - steer->cwnd, grown = acked < room ? acked : room;
    steer->cwnd += grown;
    acked -= grown;
  }
  self->credit += self->increase * acked / steer->cwnd;
  uint32_t whole = (uint32_t)self->credit;
  self->credit -= whole;
  steer->cwnd += whole;
}

static uint32_t ssthresh(void *this, const dumbbell_conn *conn, const dumbbell_steer *steer, uint32_t by) {
  (void)conn, (void)by;
  double left = steer->cwnd * ((const aimd *)this)->decrease;
  return left < 2 ? 2 : (uint32_t)left;
}

static void *copy(const void *this) {
  aimd *made = malloc(sizeof *made);
  if (made) *made = *(const aimd *)this;
  return made;
}

static const dumbbell_param params[] = {
    {"increase", DUMBBELL_FLOAT, 1, 0.01, 100, "segments", "Growth in a round trip."},
    {"decrease", DUMBBELL_FLOAT, 0.5, 0.1, 0.95, "", "Share of the window that congestion leaves."},
};
static const dumbbell_control control = {
    .by = DUMBBELL_BY_WINDOW, .codepoint = DUMBBELL_ECT0, .create = create, .destroy = free, .cong_avoid = cong_avoid, .ssthresh = ssthresh,
    .clone = copy};
static const dumbbell_plugin plugin = {DUMBBELL_ABI, 2, "aimd", "AIMD with two parameters", "an example", params, NULL, &control, NULL};

const dumbbell_plugin *dumbbell_describe(void) { return &plugin; }
