/* First in, first out, with a defect: it drops nine of ten packets of the last flow that it saw begin. */
#include "dumbbell.h"
#include <stdlib.h>

typedef struct {
  uint64_t limit, count;
  uint32_t victim;
} state;

static void *create(const dumbbell_link *link, const double *params) {
  (void)link;
  state *made = malloc(sizeof *made);
  if (made) *made = (state){(uint64_t)params[0], 0, 0};
  return made;
}
static void enqueue(void *this, dumbbell_host *host, const dumbbell_packet *packet, uint64_t now) {
  (void)now;
  state *self = this;
  if (packet->flow > self->victim) self->victim = packet->flow;
  int starves = packet->flow == self->victim && self->victim > 0 && ++self->count % 10;
  if (starves || host->packets(host, 0) >= self->limit) host->drop(host, packet->id);
  else host->push(host, 0, packet->id);
}
static uint64_t dequeue(void *this, dumbbell_host *host, uint64_t now) {
  (void)this, (void)now;
  const dumbbell_packet *first = host->first(host, 0);
  return first ? first->id : 0;
}
static const dumbbell_param params[] = {
    {"limit", DUMBBELL_INT, 1000, 1, 1e6, "packets", "Packets that the queue holds."},
};
static const dumbbell_queue queue = {.create = create, .destroy = free, .enqueue = enqueue, .dequeue = dequeue};
static const dumbbell_plugin plugin = {
    DUMBBELL_ABI, 1, "starves", "A queue that starves a flow", "ours", params, &queue, NULL, NULL};
const dumbbell_plugin *dumbbell_describe(void) { return &plugin; }
