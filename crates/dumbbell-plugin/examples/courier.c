/* courier: streams for applications, and nothing else that a stack has. The client sends a hello of 100 bytes, the server answers with one of 200; then each
 * end sends what it is given at once, in full datagrams with a header of 20 bytes. Nothing is acknowledged or sent again: it needs a net that loses nothing. */
#include "dumbbell.h"
#include <stdlib.h>
#include <string.h>

#define NEVER UINT64_MAX
#define HEADER 20u

enum { HELLO, DATA, GOODBYE };

typedef struct {
  uint64_t stream, bytes;
} piece;

typedef struct {
  int connected;
  piece *waiting; /* for the handshake */
  size_t count, room;
  piece read; /* what arrived in the last datagram */
} end;

typedef struct {
  end ends[2];
  uint32_t payload;
  uint64_t received;
} state;

static const char *const controls[] = {"none", NULL};

static void *create(const dumbbell_flow *flow, const double *values) {
  state *self = calloc(1, sizeof *self);
  (void)values;
  if (self) self->payload = flow->payload;
  return self;
}
static void destroy(void *at) {
  state *self = at;
  free(self->ends[0].waiting);
  free(self->ends[1].waiting);
  free(self);
}

static void send(dumbbell_wire *wire, uint64_t kind, uint64_t stream, uint32_t length) {
  uint8_t bytes[65536] = {0};
  memcpy(bytes, &kind, 8);
  memcpy(bytes + 8, &stream, 8);
  wire->send(wire, bytes, length, DUMBBELL_NOT_ECT);
}
static void send_data(const state *self, dumbbell_wire *wire, uint64_t stream, uint64_t bytes) {
  uint32_t most = self->payload - HEADER;
  for (; bytes > most; bytes -= most) send(wire, DATA, stream, self->payload);
  send(wire, DATA, stream, (uint32_t)bytes + HEADER);
}
static void connected(state *self, uint32_t side, dumbbell_wire *wire) {
  end *own = &self->ends[side];
  own->connected = 1;
  for (size_t n = 0; n < own->count; n++) send_data(self, wire, own->waiting[n].stream, own->waiting[n].bytes);
  own->count = 0;
}

static void start(void *at, dumbbell_wire *wire, uint64_t now) { (void)at, (void)now, send(wire, HELLO, 0, 100); }
static void stream_write(void *at, dumbbell_wire *wire, uint32_t side, uint64_t stream, uint64_t bytes, uint32_t last, uint64_t now) {
  state *self = at;
  end *own = &self->ends[side];
  (void)last, (void)now;
  if (own->connected) {
    send_data(self, wire, stream, bytes);
    return;
  }
  if (own->count == own->room) {
    piece *more = realloc(own->waiting, (own->room = 2 * own->room + 8) * sizeof *more);
    if (!more) abort();
    own->waiting = more;
  }
  own->waiting[own->count++] = (piece){stream, bytes};
}
static uint64_t stream_read(void *at, uint32_t side, uint64_t *stream) {
  piece *read = &((state *)at)->ends[side].read;
  uint64_t bytes = read->bytes;
  *stream = read->stream;
  read->bytes = 0;
  return bytes;
}
static void close(void *at, dumbbell_wire *wire, uint64_t now) { (void)at, (void)now, send(wire, GOODBYE, 0, HEADER); }
static uint64_t lost(const void *at, uint32_t side) { (void)at, (void)side; return 0; }

/* As a flow it writes to the stream of the client. */
static void write_more(void *at, dumbbell_wire *wire, uint64_t bytes, uint64_t now) {
  if (bytes != NEVER) stream_write(at, wire, DUMBBELL_CLIENT, DUMBBELL_ONE_WAY, bytes, 0, now);
}
static void finish(void *at, dumbbell_wire *wire, uint32_t ends, uint64_t now) { (void)at, (void)wire, (void)ends, (void)now; }

static void datagram(void *at, dumbbell_wire *wire, uint32_t side, const uint8_t *bytes, uint32_t length, uint32_t ecn, uint64_t now) {
  state *self = at;
  uint64_t kind, stream;
  (void)ecn, (void)now;
  memcpy(&kind, bytes, 8);
  memcpy(&stream, bytes + 8, 8);
  if (kind == HELLO) {
    if (side == DUMBBELL_SERVER) send(wire, HELLO, 0, 200);
    connected(self, side, wire);
  } else if (kind == DATA) {
    self->ends[side].read = (piece){stream, length - HEADER};
    if (side == DUMBBELL_SERVER) self->received += length - HEADER;
  }
}
static uint64_t wake(const void *at, uint32_t side) { (void)at, (void)side; return NEVER; }
static void timer(void *at, dumbbell_wire *wire, uint32_t side, uint64_t now) { (void)at, (void)wire, (void)side, (void)now; }
static void stats(const void *at, dumbbell_stack_stats *to) {
  to->received = ((const state *)at)->received;
  to->connected = (uint64_t)((const state *)at)->ends[DUMBBELL_CLIENT].connected;
}
static const char *closed(const void *at) { (void)at; return NULL; }
static void *copy(const void *at) {
  state *self = malloc(sizeof *self);
  if (!self) return NULL;
  *self = *(const state *)at;
  for (int side = 0; side < 2; side++) {
    end *own = &self->ends[side];
    piece *waiting = own->waiting;
    if (!waiting) continue;
    own->waiting = malloc(own->room * sizeof *waiting);
    if (!own->waiting) abort();
    memcpy(own->waiting, waiting, own->count * sizeof *waiting);
  }
  return self;
}

static const dumbbell_stack stack = {controls, create, destroy, start,  write_more,   finish,      datagram, wake,
                                     timer,    stats,  closed,  stream_write, stream_read, close, lost, copy};
static const dumbbell_plugin plugin = {DUMBBELL_ABI, 0, "courier", "Streams and nothing else", "an example", NULL, NULL, NULL, &stack};
const dumbbell_plugin *dumbbell_describe(void) { return &plugin; }
