/* CoDel (RFC 8289, section 5) and PIE (RFC 8033, section 4), with switches for their defects. The defaults have none. */
#include "dumbbell.h"
#include <math.h>
#include <stdlib.h>

#define MS 1000000.0
#define SMALL 1514  /* bytes: CoDel lets a full frame wait */

typedef struct {
  double target, interval, clock; /* ns, ns, rate of the clock */
  int pie, ecn, marks, signals;
  uint64_t limit, random; /* packets */
  /* CoDel */
  double first_above, drop_next;
  uint32_t count, last_count;
  int dropping;
  /* PIE */
  double p, delay, delay_old, burst, next;
} state;

static void *create(const dumbbell_link *link, const double *params) {
  state *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  *made = (state){.target = params[0] * params[1], .interval = 100 * MS, .clock = params[2], .pie = (int)params[3],
                  .ecn = (int)params[4], .marks = (int)params[5], .signals = (int)params[6], .limit = (uint64_t)params[7],
                  .random = link->seed | 1, .burst = 150 * MS};
  return made;
}
static double draw(state *self) { /* xorshift64 */
  self->random ^= self->random << 13, self->random ^= self->random >> 7, self->random ^= self->random << 17;
  return (double)(self->random >> 11) / 9007199254740992.0;
}
/* Whether the packet was marked; else it has to be dropped. */
static int mark(const state *self, dumbbell_host *host, uint64_t id) {
  return self->ecn && self->marks && host->mark(host, id);
}

static int is_long(state *self, dumbbell_host *host, const dumbbell_packet *packet, double now, double sojourn) {
  if (!packet || sojourn < self->target || host->bytes(host, 0) <= SMALL) {
    self->first_above = 0;
    return 0;
  }
  if (self->first_above == 0) self->first_above = now + self->interval;
  return now >= self->first_above;
}
static double after(const state *self, double time) { return time + self->interval / sqrt(self->count); }

static uint64_t dequeue_codel(state *self, dumbbell_host *host, double now) {
  for (;;) {
    const dumbbell_packet *first = host->first(host, 0);
    double sojourn = first ? now - first->arrived * self->clock : 0;
    int is_above = is_long(self, host, first, now, sojourn);
    if (!first) {
      self->dropping = 0;
      return 0;
    }
    if (!is_above || !self->signals) self->dropping = 0;
    if (self->dropping ? now < self->drop_next : !is_above || !self->signals) return first->id;
    if (self->dropping) {
      self->count++;
      self->drop_next = after(self, self->drop_next);
    } else {
      uint32_t fresh = self->count - self->last_count;
      self->dropping = 1;
      self->count = fresh > 1 && now - self->drop_next < 16 * self->interval ? fresh : 1;
      self->drop_next = after(self, now);
      self->last_count = self->count;
    }
    if (mark(self, host, first->id)) return first->id;
    host->drop(host, first->id);
  }
}

static void update_pie(state *self, double now) {
  double step = 15 * MS;
  while (self->next <= now) {
    double scale = self->p < 1e-6 ? 2048 : self->p < 1e-5 ? 512 : self->p < 1e-4 ? 128 : self->p < 1e-3 ? 32
                   : self->p < 0.01 ? 8 : self->p < 0.1 ? 2 : 1;
    double change = (0.125 * (self->delay - self->target) + 1.25 * (self->delay - self->delay_old)) / 1e9 / scale;
    self->p += self->p >= 0.1 && change > 0.02 ? 0.02 : change;
    if (self->delay == 0 && self->delay_old == 0) self->p *= 0.98;
    self->p = self->p < 0 ? 0 : self->p > 1 ? 1 : self->p;
    self->delay_old = self->delay;
    self->burst = self->burst > step ? self->burst - step : 0;
    self->next += step;
  }
}
static void enqueue(void *this, dumbbell_host *host, const dumbbell_packet *packet, uint64_t real) {
  state *self = this;
  int is_full = host->packets(host, 0) >= self->limit;
  if (self->pie && !is_full) {
    update_pie(self, real * self->clock);
    int is_calm = self->burst > 0 || (self->delay_old < self->target / 2 && self->p < 0.2) || host->bytes(host, 0) <= 2 * SMALL;
    if (self->signals && !is_calm && draw(self) < self->p && !(self->p <= 0.1 && mark(self, host, packet->id))) {
      host->drop(host, packet->id);
      return;
    }
  }
  if (is_full) host->drop(host, packet->id);
  else host->push(host, 0, packet->id);
}
static uint64_t dequeue(void *this, dumbbell_host *host, uint64_t real) {
  state *self = this;
  double now = real * self->clock;
  if (!self->pie) return dequeue_codel(self, host, now);
  const dumbbell_packet *first = host->first(host, 0);
  self->delay = first ? now - first->arrived * self->clock : 0;
  return first ? first->id : 0;
}
static const dumbbell_param params[] = {
    {"target", DUMBBELL_TIME, 5 * MS, 1000, 1e10, "", "Delay to hold."},
    {"scale", DUMBBELL_FLOAT, 1, 0.01, 100, "", "Delay that it holds, over target."},
    {"clock", DUMBBELL_FLOAT, 1, 0.01, 100, "", "Rate of its clock."},
    {"pie", DUMBBELL_BOOL, 0, 0, 1, "", "PIE; else CoDel."},
    {"ecn", DUMBBELL_BOOL, 1, 0, 1, "", "Marks ECN-capable packets instead of dropping them."},
    {"marks", DUMBBELL_BOOL, 1, 0, 1, "", "Whether it does so."},
    {"signals", DUMBBELL_BOOL, 1, 0, 1, "", "Drops or marks before it is full."},
    {"limit", DUMBBELL_INT, 1000, 1, 1e6, "packets", "Packets that the queue holds."},
};
static const dumbbell_queue queue = {.create = create, .destroy = free, .enqueue = enqueue, .dequeue = dequeue};
static const dumbbell_plugin plugin = {
    DUMBBELL_ABI, sizeof params / sizeof *params, "queue", "CoDel and PIE with defects", "ours", params, &queue, NULL, NULL};
const dumbbell_plugin *dumbbell_describe(void) { return &plugin; }
