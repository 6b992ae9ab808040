/* @NAME@: first in, first out; above a threshold it marks packets, or drops those that cannot be marked. */
#include "dumbbell.h"
#include <stdlib.h>

typedef struct {
  double limit, threshold;
} state;

static void *create(const dumbbell_link *link, const double *params) {
  (void)link;
  state *self = malloc(sizeof *self);
  if (self) *self = (state){params[0], params[1]};
  return self;
}

static void enqueue(void *this, dumbbell_host *host, const dumbbell_packet *packet, uint64_t now) {
  (void)now;
  const state *self = this;
  int is_full = host->packets(host, 0) >= self->limit, is_long = host->bytes(host, 0) > self->threshold;
  if (is_full || (is_long && !host->mark(host, packet->id)))
    host->drop(host, packet->id);
  else
    host->push(host, 0, packet->id);
}

static uint64_t dequeue(void *this, dumbbell_host *host, uint64_t now) {
  (void)this, (void)now;
  const dumbbell_packet *first = host->first(host, 0);
  return first ? first->id : 0;
}

/* For copies of a run on its way. */
static void *copy(const void *this) {
  state *made = malloc(sizeof *made);
  if (made) *made = *(const state *)this;
  return made;
}

static const dumbbell_param params[] = {
    /* name, kind, default, smallest, largest, unit, meaning */
    {"limit", DUMBBELL_INT, 1000, 1, 1e6, "packets", "Packets that the queue holds."},
    {"threshold", DUMBBELL_SIZE, 30000, 0, 1e9, "", "Marks, or drops, above this."},
};
static const dumbbell_queue queue = {
    .create = create, .destroy = free, .enqueue = enqueue, .dequeue = dequeue, .clone = copy};
static const dumbbell_plugin plugin = {
    DUMBBELL_ABI, sizeof params / sizeof *params, "@NAME@", "A step threshold", "its author", params, &queue, NULL, NULL};

const dumbbell_plugin *dumbbell_describe(void) { return &plugin; }
