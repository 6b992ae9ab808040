/* A connection with both its ends, the client's application, which writes, and the server's, which reads.
 *
 * Licence: MIT OR Apache-2.0. */
#include "stack.h"
#include <arpa/inet.h>
#include <picoquic.h>
#include <picoquic_internal.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_US 1000u
#define BEGIN 1000000u /* µs; the run begins a second after zero, which picoquic takes for "never" in places */
#define STREAM 2u      /* the client's first unidirectional stream: RFC 9000 section 2.1 */
#define IP_UDP 28u     /* bytes of IPv4 and UDP headers, which picoquic's MTU has in it */
#define MOST_AT_ONCE 100000u /* datagrams */
#define ALPN "dumbbell"

typedef struct flow flow;

typedef struct {
  flow *of;
  picoquic_quic_t *quic;
  struct sockaddr_in address;
  uint64_t wake; /* µs */
} end;

struct flow {
  generator random;
  uint64_t now; /* µs, of the last call; both contexts read it as their clock */
  end ends[2];
  picoquic_cnx_t *connection; /* the client's */
  uint64_t unwritten;
  uint64_t received;
  uint64_t cwin, rtt; /* of an earlier connection */
  uint32_t mtu;
  uint32_t codepoint;
  int searches; /* for the MTU */
  int connected, ending, over;
  char options[64]; /* of the control, which keeps the pointer */
  char reason[160];
};

static uint64_t microseconds(uint64_t ns) { return ns == NEVER ? NEVER : BEGIN + ns / NS_PER_US; }
static uint64_t nanoseconds(uint64_t us) { return us == NEVER ? NEVER : us * NS_PER_US; }

/* --- what picoquic calls ------------------------------------------------------------------------------------------ */

static void note_end(flow *self, picoquic_cnx_t *connection) {
  uint64_t local, remote, local_application, remote_application;
  picoquic_get_close_reasons(connection, &local, &remote, &local_application, &remote_application);
  const char *who = local || !remote ? "the client" : "the server";
  uint64_t code = local ? local : remote;
  if (self->over) return;
  self->over = 1;
  snprintf(self->reason, sizeof self->reason, "%s: %s (0x%llx)", who, code ? picoquic_error_name(code) : "no error",
           (unsigned long long)code);
}

/* Hands over zeros, as many as there is room for. */
static int provide(flow *self, void *room, size_t most) {
  size_t bytes = self->unwritten < most ? (size_t)self->unwritten : most;
  if (self->unwritten != NEVER) self->unwritten -= bytes;
  int is_last = self->ending && self->unwritten == 0;
  uint8_t *to = picoquic_provide_stream_data_buffer(room, bytes, is_last, self->unwritten > 0);
  if (!to) return bytes > 0 ? -1 : 0;
  memset(to, 0, bytes);
  return 0;
}

static int client_event(picoquic_cnx_t *connection, uint64_t stream, uint8_t *bytes, size_t length, picoquic_call_back_event_t event,
                        void *context, void *of_stream) {
  (void)stream, (void)of_stream;
  flow *self = ((end *)context)->of;
  switch (event) {
  case picoquic_callback_prepare_to_send:
    return provide(self, bytes, length);
  case picoquic_callback_ready:
    self->connected = 1;
    return 0;
  case picoquic_callback_close:
  case picoquic_callback_application_close:
  case picoquic_callback_stateless_reset:
    note_end(self, connection);
    return 0;
  default:
    return 0;
  }
}

static int server_event(picoquic_cnx_t *connection, uint64_t stream, uint8_t *bytes, size_t length, picoquic_call_back_event_t event,
                        void *context, void *of_stream) {
  (void)connection, (void)stream, (void)bytes, (void)of_stream;
  flow *self = ((end *)context)->of;
  if (event == picoquic_callback_stream_data || event == picoquic_callback_stream_fin) self->received += length;
  return 0;
}

/* --- one end ------------------------------------------------------------------------------------------------------ */

static void enter(flow *self, uint64_t now) {
  self->now = microseconds(now);
  random_use(&self->random);
}

/* Sends what can be sent now, and notes when to go on. */
static void drive(flow *self, uint32_t side, dumbbell_wire *wire) {
  end *at = &self->ends[side];
  uint8_t datagram[PICOQUIC_MAX_PACKET_SIZE];
  struct sockaddr_storage to, from;
  for (unsigned n = 0; n < MOST_AT_ONCE && !self->over; n++) {
    int interface = 0;
    size_t length = 0;
    int failed = picoquic_prepare_next_packet_ex(at->quic, self->now, datagram, sizeof datagram, &length, &to, &from, &interface, NULL,
                                                 NULL, NULL);
    if (failed || length == 0) break;
    wire->send(wire, datagram, (uint32_t)length, self->codepoint);
  }
  uint64_t wake = picoquic_get_next_wake_time(at->quic, self->now);
  /* what is overdue was done just now, so that it is another microsecond's */
  at->wake = wake > self->now ? wake : self->now + 1;
}

static int configure(flow *self, end *at, const picoquic_congestion_algorithm_t *control, const double *values) {
  picoquic_quic_t *quic = at->quic;
  picoquic_tp_t *offer = &quic->default_tp;
  picoquic_enforce_client_only(quic, 0);
  picoquic_set_default_congestion_algorithm_ex(quic, control, self->options[0] ? self->options : NULL);
  picoquic_set_default_idle_timeout(quic, 0);
  picoquic_set_mtu_max(quic, self->mtu + IP_UDP);
  picoquic_set_max_data_control(quic, (uint64_t)values[P_MAX_DATA]);
  picoquic_set_cwin_max(quic, (uint64_t)values[P_CWIN_MAX]);
  picoquic_set_preemptive_repeat_policy(quic, values[P_PREEMPTIVE_REPEAT] != 0);
  picoquic_set_packet_train_mode(quic, values[P_PACKET_TRAIN] != 0);
  picoquic_set_optimistic_ack_policy(quic, (uint32_t)values[P_SEQUENCE_HOLES]);
  /* without discovery a path begins with the full MTU; a path that losses made smaller is to get it back soon */
  picoquic_set_default_pmtud_policy(quic, self->searches ? picoquic_pmtud_basic : picoquic_pmtud_required);
  offer->max_packet_size = self->mtu;
  offer->initial_max_data = (uint64_t)values[P_INITIAL_MAX_DATA];
  offer->initial_max_stream_data_uni = (uint64_t)values[P_INITIAL_MAX_STREAM_DATA];
  offer->min_ack_delay = values[P_ACK_FREQUENCY] != 0 ? (uint64_t)values[P_MIN_ACK_DELAY] / NS_PER_US : 0;
  offer->max_ack_delay = (uint32_t)(values[P_MAX_ACK_DELAY] / NS_PER_US);
  return crypto_prepare(quic);
}

static int make_end(flow *self, uint32_t side) {
  /* one at a time: contexts seed a generator of the whole process, though nobody draws from it */
  static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
  end *at = &self->ends[side];
  at->of = self;
  at->wake = NEVER;
  at->address.sin_family = AF_INET;
  at->address.sin_port = htons(side == DUMBBELL_CLIENT ? 50000 : 443);
  at->address.sin_addr.s_addr = htonl(0x0a000001u + side); /* 10.0.0.1 and 10.0.0.2 */
  pthread_mutex_lock(&one);
  at->quic = picoquic_create(1, NULL, NULL, NULL, ALPN, side == DUMBBELL_CLIENT ? client_event : server_event, at, NULL, NULL, NULL,
                             self->now, &self->now, NULL, NULL, 0);
  pthread_mutex_unlock(&one);
  return at->quic != NULL;
}

/* --- the interface ------------------------------------------------------------------------------------------------ */

/* bbr.c and bbr1.c of the tree say what the letters mean. */
static void set_options(flow *self, const char *control, const double *values) {
  int used = 0;
  size_t room = sizeof self->options;
  if (strncmp(control, "bbr", 3) != 0) return;
  if (strcmp(control, "bbr") == 0 && values[P_BBR_EXPERIMENT] == 0) used += snprintf(self->options, room, "ERHLDA");
  if (values[P_WIFI_SHADOW_RTT] > 0) {
    used += snprintf(self->options + used, room - used, "T%llu:", (unsigned long long)(values[P_WIFI_SHADOW_RTT] / NS_PER_US));
  }
  if (values[P_BBR_QUANTUM_RATIO] > 0) {
    unsigned long long millionths = (unsigned long long)(values[P_BBR_QUANTUM_RATIO] * 1e6 + 0.5);
    snprintf(self->options + used, room - used, "Q%llu.%06llu:", millionths / 1000000, millionths % 1000000);
  }
}

void *flow_create(const dumbbell_flow *setup, const double *values) {
  const picoquic_congestion_algorithm_t *control = picoquic_get_congestion_algorithm(setup->control);
  flow *self = control ? calloc(1, sizeof *self) : NULL;
  if (!self) return NULL;
  self->random.state = setup->seed;
  self->mtu = (uint32_t)values[P_MTU] < setup->payload ? (uint32_t)values[P_MTU] : setup->payload;
  self->searches = values[P_MTU_DISCOVERY] != 0;
  self->codepoint = setup->ecn ? control->ecn_mark : DUMBBELL_NOT_ECT;
  self->cwin = (uint64_t)values[P_SEED_CWIN];
  self->rtt = (uint64_t)values[P_SEED_RTT] / NS_PER_US;
  set_options(self, setup->control, values);
  enter(self, 0);
  for (uint32_t side = 0; side < 2; side++) {
    if (!make_end(self, side) || !configure(self, &self->ends[side], control, values)) {
      flow_destroy(self);
      return NULL;
    }
  }
  return self;
}

void flow_destroy(void *at) {
  flow *self = at;
  random_use(&self->random);
  self->over = 1;
  for (uint32_t side = 0; side < 2; side++) {
    if (self->ends[side].quic) picoquic_free(self->ends[side].quic);
  }
  free(self);
}

/* The stream has something to send, or its end. */
static void activate(flow *self) {
  if (self->connection && (self->unwritten > 0 || self->ending)) picoquic_mark_active_stream(self->connection, STREAM, 1, NULL);
}

void flow_start(void *at, dumbbell_wire *wire, uint64_t now) {
  flow *self = at;
  end *client = &self->ends[DUMBBELL_CLIENT], *server = &self->ends[DUMBBELL_SERVER];
  enter(self, now);
  self->connection = picoquic_create_cnx(client->quic, picoquic_null_connection_id, picoquic_null_connection_id,
                                         (struct sockaddr *)&server->address, self->now, 0, "server", ALPN, 1);
  if (!self->connection) return;
  if (self->cwin > 0 && self->rtt > 0) {
    picoquic_seed_bandwidth(self->connection, self->rtt, self->cwin, (uint8_t *)&server->address.sin_addr, 4);
  }
  if (!self->searches) self->connection->path[0]->send_mtu = self->mtu;
  picoquic_start_client_cnx(self->connection);
  activate(self);
  drive(self, DUMBBELL_CLIENT, wire);
}

void flow_write(void *at, dumbbell_wire *wire, uint64_t bytes, uint64_t now) {
  flow *self = at;
  if (self->over) return;
  enter(self, now);
  self->unwritten = bytes > NEVER - self->unwritten ? NEVER : self->unwritten + bytes;
  activate(self);
  drive(self, DUMBBELL_CLIENT, wire);
}

void flow_finish(void *at, dumbbell_wire *wire, uint32_t end, uint64_t now) {
  flow *self = at;
  if (self->over) return;
  enter(self, now);
  if (!end) self->unwritten = 0;
  self->ending = 1;
  activate(self);
  drive(self, DUMBBELL_CLIENT, wire);
}

void flow_datagram(void *at, dumbbell_wire *wire, uint32_t side, const uint8_t *payload, uint32_t length, uint32_t ecn, uint64_t now) {
  flow *self = at;
  uint8_t copy[PICOQUIC_MAX_PACKET_SIZE];
  end *to = &self->ends[side], *from = &self->ends[1 - side];
  if (self->over || length > sizeof copy) return;
  enter(self, now);
  memcpy(copy, payload, length); /* picoquic removes header protection in place */
  picoquic_incoming_packet(to->quic, copy, length, (struct sockaddr *)&from->address, (struct sockaddr *)&to->address, 0,
                           (unsigned char)ecn, self->now);
  drive(self, side, wire);
}

uint64_t flow_wake(const void *at, uint32_t side) {
  const flow *self = at;
  uint64_t wake = self->ends[side].wake;
  return self->over || wake == NEVER ? NEVER : nanoseconds(wake - BEGIN);
}

void flow_timer(void *at, dumbbell_wire *wire, uint32_t side, uint64_t now) {
  flow *self = at;
  if (self->over) return;
  enter(self, now);
  drive(self, side, wire);
}

void flow_stats(const void *at, dumbbell_stack_stats *to) {
  const flow *self = at;
  to->received = self->received;
  to->connected = (uint64_t)self->connected;
  picoquic_cnx_t *connection = self->connection;
  if (!connection || connection->nb_paths < 1) return;
  picoquic_path_t *path = connection->path[0];
  const picoquic_congestion_algorithm_t *control = connection->congestion_alg;
  to->cwnd = path->cwin;
  to->in_flight = path->bytes_in_transit;
  to->pacing_rate = path->pacing.rate;
  if (path->rtt_is_initialized) {
    to->rtt = nanoseconds(path->smoothed_rtt);
    to->min_rtt = nanoseconds(path->rtt_min);
  }
  to->lost = path->nb_losses_found;
  to->spurious = path->nb_spurious;
  to->timeouts = path->nb_timer_losses;
  to->ce = connection->pkt_ctx[picoquic_packet_context_application].ecn_ce_total_remote;
  if (control && control->alg_observe && path->congestion_alg_state) {
    uint64_t state = 0, value = 0;
    control->alg_observe(path, &state, &value);
    to->state = state;
    if (strcmp(control->congestion_algorithm_id, "newreno") == 0 && value > 0) to->ssthresh = value; /* others tell something else */
  }
}

const char *flow_closed(const void *at) {
  const flow *self = at;
  return self->over ? self->reason : NULL;
}
