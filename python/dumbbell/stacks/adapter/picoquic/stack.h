/* What the parts of the stack share. Licence: MIT OR Apache-2.0. */
#ifndef STACK_H
#define STACK_H

#include "dumbbell.h"

#define NEVER UINT64_MAX

/* --- random.c ----------------------------------------------------------------------------------------------------- */

typedef struct {
  uint64_t state;
} generator;

/* From now on this thread's calls into picoquic draw from `from`. */
void random_use(generator *from);

/* --- crypto.c ----------------------------------------------------------------------------------------------------- */

struct st_picoquic_quic_t;

/* Registers a cipher suite that encrypts nothing; once in a process, before the first context. */
void crypto_register(void);
/* Gives a context that cipher suite, a key exchange that costs nothing, and a certificate. Returns 0 if there is no memory for it. */
int crypto_prepare(struct st_picoquic_quic_t *quic);

/* --- params.c ----------------------------------------------------------------------------------------------------- */

/* The parameters, in the order of their values. */
enum {
  P_MTU,
  P_MTU_DISCOVERY,
  P_MAX_DATA,
  P_INITIAL_MAX_DATA,
  P_INITIAL_MAX_STREAM_DATA,
  P_CWIN_MAX,
  P_SEED_CWIN,
  P_SEED_RTT,
  P_ACK_FREQUENCY,
  P_MIN_ACK_DELAY,
  P_MAX_ACK_DELAY,
  P_PREEMPTIVE_REPEAT,
  P_PACKET_TRAIN,
  P_SEQUENCE_HOLES,
  P_BBR_EXPERIMENT,
  P_WIFI_SHADOW_RTT,
  P_BBR_QUANTUM_RATIO,
  P_COUNT
};
extern const dumbbell_param params[P_COUNT];

/* --- flow.c ------------------------------------------------------------------------------------------------------- */

void *flow_create(const dumbbell_flow *setup, const double *values);
void flow_destroy(void *self);
void flow_start(void *self, dumbbell_wire *wire, uint64_t now);
void flow_write(void *self, dumbbell_wire *wire, uint64_t bytes, uint64_t now);
void flow_finish(void *self, dumbbell_wire *wire, uint32_t end, uint64_t now);
void flow_datagram(void *self, dumbbell_wire *wire, uint32_t side, const uint8_t *payload, uint32_t length, uint32_t ecn, uint64_t now);
uint64_t flow_wake(const void *self, uint32_t side);
void flow_timer(void *self, dumbbell_wire *wire, uint32_t side, uint64_t now);
void flow_stats(const void *self, dumbbell_stack_stats *to);
const char *flow_closed(const void *self);

#endif
