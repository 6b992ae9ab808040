/* A queue that sends the newest packet first, and marks what waits behind more than `threshold` bytes. */
#include "dumbbell.h"
#include <stdlib.h>

typedef struct {
  double limit, threshold;
} lifo;

static void *create(const dumbbell_link *link, const double *params) {
  (void)link;
  lifo *self = malloc(sizeof *self);
  if (self) *self = (lifo){params[0], params[1]};
  return self;
}

static void enqueue(void *this, dumbbell_host *host, const dumbbell_packet *packet, uint64_t now) {
  (void)now;
  const lifo *self = this;
  if (host->packets(host, 0) >= self->limit || (host->bytes(host, 0) > self->threshold && !host->mark(host, packet->id)))
    host->drop(host, packet->id);
  else
    host->push(host, 0, packet->id);
}

static uint64_t dequeue(void *this, dumbbell_host *host, uint64_t now) {
  (void)this, (void)now;
  const dumbbell_packet *newest = host->last(host, 0);
  return newest ? newest->id : 0;
}

static void *copy(const void *this) {
  lifo *made = malloc(sizeof *made);
  if (made) *made = *(const lifo *)this;
  return made;
}

static const dumbbell_param params[] = {
    {"limit", DUMBBELL_INT, 1000, 1, 1e6, "packets", "Packets that the queue holds."},
    {"threshold", DUMBBELL_SIZE, 30000, 0, 1e9, "", "Marks, or drops, above this."},
};
static const dumbbell_queue queue = {.create = create, .destroy = free, .enqueue = enqueue, .dequeue = dequeue, .clone = copy};
static const dumbbell_plugin plugin = {DUMBBELL_ABI, 2, "lifo", "Last in, first out", "an example", params, &queue, NULL, NULL};

const dumbbell_plugin *dumbbell_describe(void) { return &plugin; }
