/* @NAME@: a video slows down while its packets wait, and speeds up otherwise. */
#include "dumbbell.h"
#include <stdlib.h>

typedef struct {
  int64_t target, base; /* base: smallest difference between arrival and sending, on two clocks */
  double rate;
  uint64_t last;
} state;

static void *create(uint64_t seed, uint64_t number, const double *params) {
  (void)seed, (void)number;
  state *self = malloc(sizeof *self);
  if (self) *self = (state){.target = (int64_t)params[0], .base = INT64_MAX, .rate = 300e3};
  return self;
}

static uint64_t encoder_rate(const void *this, uint64_t buffered) {
  (void)buffered;
  return (uint64_t)((const state *)this)->rate;
}

static uint64_t pacing_rate(const void *this, uint64_t buffered) {
  (void)buffered;
  return (uint64_t)(1.5 * ((const state *)this)->rate);
}

static void feedback(void *this, const dumbbell_media_packet *packets, uint64_t count, uint64_t rtt, uint64_t now) {
  (void)rtt;
  state *self = this;
  int64_t least = INT64_MAX;
  uint64_t lost = 0;
  for (uint64_t n = 0; n < count; n++) {
    int64_t transit = packets[n].arrived - (int64_t)packets[n].sent;
    if (packets[n].arrived < 0) lost++;
    else if (transit < least) least = transit;
  }
  if (least == INT64_MAX) return;
  if (least < self->base) self->base = least;
  double seconds = (double)(now - self->last) / 1e9;
  if (seconds > 0.2) seconds = 0.2;
  self->last = now;
  /* half a second of waiting packets or losses costs a third of the rate; it grows by 8 % a second */
  int slows_down = least - self->base > self->target || lost * 20 > count;
  self->rate *= slows_down ? 1.0 - 0.8 * seconds : 1.0 + 0.08 * seconds;
  if (self->rate < 150e3) self->rate = 150e3;
  if (self->rate > 1.5e6) self->rate = 1.5e6;
}

/* For copies of a run on its way. */
static void *copy(const void *this) {
  state *made = malloc(sizeof *made);
  if (made) *made = *(const state *)this;
  return made;
}

static const dumbbell_param params[] = {
    /* name, kind, default, smallest, largest, unit, meaning */
    {"target", DUMBBELL_TIME, 30e6, 1e6, 1e9, "", "Queueing delay from which on the video slows down."},
};
static const dumbbell_media media = {.interval = 50000000, /* ns between two reports */
                                     .create = create,
                                     .destroy = free,
                                     .encoder_rate = encoder_rate,
                                     .pacing_rate = pacing_rate,
                                     .feedback = feedback,
                                     .clone = copy};
static const dumbbell_plugin plugin = {.abi = DUMBBELL_ABI,
                                       .params = sizeof params / sizeof *params,
                                       .name = "@NAME@",
                                       .title = "By delay",
                                       .source = "its author",
                                       .param = params,
                                       .media = &media};

const dumbbell_plugin *dumbbell_describe(void) { return &plugin; }
