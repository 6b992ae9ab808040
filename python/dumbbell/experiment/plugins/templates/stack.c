/* @NAME@: a window that grows by one packet per round trip and is halved when a packet is missing. The client numbers its packets; the server
 * answers each with the number that it expects. Put your own stack in its place: both ends of one connection, driven by datagrams and timers. */
#include "dumbbell.h"
#include <stdlib.h>
#include <string.h>

#define NEVER UINT64_MAX
#define PAYLOAD 1200u

typedef struct {
  uint64_t size, next, acked, window, srtt, rto_at, lost, reductions, halved_at, held, ended; /* client; window in 1/4096 packets */
  uint64_t expected, received, answer; /* server */
} state;

static const dumbbell_param params[] = {{"initial", DUMBBELL_INT, 10, 1, 1000, "packets", "initial window"}};
static const char *const controls[] = {"aimd", "fixed", NULL};

static void *create(const dumbbell_flow *flow, const double *values) {
  state *self = calloc(1, sizeof *self);
  if (!self) return NULL;
  self->window = (uint64_t)values[0] * 4096;
  self->held = strcmp(flow->control, "fixed") == 0;
  self->rto_at = NEVER;
  return self;
}
static void destroy(void *self) { free(self); }

/* Full ones, and at the end what is left. */
static uint64_t packets(const state *self) {
  return self->size == NEVER ? NEVER : (self->size + (self->ended ? PAYLOAD - 1 : 0)) / PAYLOAD;
}

static void fill(state *self, dumbbell_wire *wire, uint64_t now) {
  uint8_t bytes[PAYLOAD + 16];
  memset(bytes, 0, sizeof bytes);
  while (self->next < packets(self) && self->next - self->acked < self->window / 4096) {
    uint64_t left = self->size == NEVER ? PAYLOAD : self->size - self->next * PAYLOAD;
    uint32_t length = left < PAYLOAD ? (uint32_t)left : PAYLOAD;
    memcpy(bytes, &self->next, 8);
    memcpy(bytes + 8, &now, 8);
    wire->send(wire, bytes, length + 16, DUMBBELL_NOT_ECT);
    self->next++;
  }
  self->rto_at = self->next > self->acked ? now + 300000000 + 2 * self->srtt : NEVER;
}
static void again(state *self, dumbbell_wire *wire, uint64_t now) { /* from the missing packet on */
  self->lost += self->next - self->acked;
  self->next = self->acked;
  self->halved_at = now;
  self->reductions += !self->held;
  if (!self->held) self->window = self->window / 2 < 8192 ? 8192 : self->window / 2;
  fill(self, wire, now);
}

static void start(void *at, dumbbell_wire *wire, uint64_t now) { (void)at, (void)wire, (void)now; }
static void write_more(void *at, dumbbell_wire *wire, uint64_t bytes, uint64_t now) {
  state *self = at;
  self->size = bytes == NEVER ? NEVER : self->size + bytes;
  fill(self, wire, now);
}
static void finish(void *at, dumbbell_wire *wire, uint32_t end, uint64_t now) {
  state *self = at;
  if (!end) self->size = self->next * PAYLOAD;
  self->ended = 1;
  fill(self, wire, now);
}

static void datagram(void *at, dumbbell_wire *wire, uint32_t side, const uint8_t *bytes, uint32_t length, uint32_t ecn, uint64_t now) {
  state *self = at;
  uint64_t number, stamp;
  (void)ecn;
  memcpy(&number, bytes, 8);
  memcpy(&stamp, bytes + 8, 8);
  if (side == DUMBBELL_SERVER) {
    uint8_t answer[16];
    if (number == self->expected) self->expected++, self->received += length - 16;
    memcpy(answer, &self->expected, 8);
    memcpy(answer + 8, &stamp, 8);
    wire->send(wire, answer, 16, DUMBBELL_NOT_ECT);
    return;
  }
  uint64_t rtt = now - stamp;
  self->srtt = self->srtt ? (7 * self->srtt + rtt) / 8 : rtt;
  if (number > self->acked) {
    if (!self->held) self->window += 4096 * 4096 * (number - self->acked) / self->window;
    self->acked = number;
    if (self->next < number) self->next = number;
  } else if (number < self->next && stamp > self->halved_at) {
    again(self, wire, now); /* a later packet came first: the one in front of it is lost */
    return;
  }
  fill(self, wire, now);
}
static uint64_t wake(const void *at, uint32_t side) { return side == DUMBBELL_CLIENT ? ((const state *)at)->rto_at : NEVER; }
static void timer(void *at, dumbbell_wire *wire, uint32_t side, uint64_t now) {
  (void)side;
  again(at, wire, now);
}

static void stats(const void *at, dumbbell_stack_stats *to) {
  const state *self = at;
  to->received = self->received;
  to->cwnd = self->window * PAYLOAD / 4096;
  to->in_flight = (self->next - self->acked) * PAYLOAD;
  to->rtt = self->srtt ? self->srtt : NEVER;
  to->lost = self->lost;
  to->congestion_events = self->reductions; /* what is not told stays UINT64_MAX, and is missing in results */
}
static const char *closed(const void *at) { (void)at; return NULL; }
static void *copy(const void *at) { /* for copies of a run on its way */
  state *made = malloc(sizeof *made);
  if (made) *made = *(const state *)at;
  return made;
}

static const dumbbell_stack stack = {.controls = controls, .create = create, .destroy = destroy, .start = start, .write = write_more,
                                     .finish = finish, .datagram = datagram, .wake = wake, .timer = timer, .stats = stats,
                                     .closed = closed, .clone = copy};
static const dumbbell_plugin plugin = {DUMBBELL_ABI, 1, "@NAME@", "A window and nothing else", "its author", params, NULL, NULL, &stack};
const dumbbell_plugin *dumbbell_describe(void) { return &plugin; }
