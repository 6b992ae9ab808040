/* Additive increase and multiplicative decrease, with switches for its defects. The defaults are Reno's. */
#include "dumbbell.h"
#include <stdlib.h>

typedef struct {
  double increase, decrease, least, credit;
  int on_ce, on_loss, on_timeout;
} state;

static void *create(uint64_t seed, uint64_t flow, const double *params) {
  (void)seed, (void)flow;
  state *made = malloc(sizeof *made);
  if (made) *made = (state){params[0], params[1], params[2], 0, (int)params[3], (int)params[4], (int)params[5]};
  return made;
}
static void cong_avoid(void *this, const dumbbell_conn *conn, dumbbell_steer *steer, uint32_t acked) {
  state *self = this;
  if (!conn->cwnd_limited) return;
  if (steer->cwnd < steer->ssthresh) {
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
  (void)conn;
  const state *self = this;
  int answers = by == DUMBBELL_BY_ECN ? self->on_ce : by == DUMBBELL_BY_LOSS ? self->on_loss : self->on_timeout;
  double left = answers ? steer->cwnd * self->decrease : steer->cwnd;
  return (uint32_t)(left < self->least ? self->least : left);
}
static const dumbbell_param params[] = {
    {"increase", DUMBBELL_FLOAT, 1, 0.01, 100, "segments", "Growth in a round trip."},
    {"decrease", DUMBBELL_FLOAT, 0.5, 0.1, 0.99, "", "Share of the window that congestion leaves."},
    {"least", DUMBBELL_FLOAT, 2, 1, 10000, "segments", "Smallest threshold."},
    {"on_ce", DUMBBELL_BOOL, 1, 0, 1, "", "Answers CE."},
    {"on_loss", DUMBBELL_BOOL, 1, 0, 1, "", "Answers loss."},
    {"on_timeout", DUMBBELL_BOOL, 1, 0, 1, "", "Answers timeouts."},
};
static const dumbbell_control control = {.by = DUMBBELL_BY_WINDOW, .codepoint = DUMBBELL_ECT0, .create = create,
                                         .destroy = free, .cong_avoid = cong_avoid, .ssthresh = ssthresh};
static const dumbbell_plugin plugin = {
    DUMBBELL_ABI, sizeof params / sizeof *params, "mutant", "AIMD with defects", "ours", params, NULL, &control, NULL};
const dumbbell_plugin *dumbbell_describe(void) { return &plugin; }
