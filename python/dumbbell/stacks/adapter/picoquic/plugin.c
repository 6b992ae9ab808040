/* The description of the stack: its controls are all that the tree registers.
 *
 * Licence: MIT OR Apache-2.0. */
#include "stack.h"
#include <picoquic.h>
#include <pthread.h>

#define MOST 64u /* controls */

static const char *controls[MOST + 1];
static const dumbbell_stack functions = {controls,      flow_create,   flow_destroy, flow_start, flow_write, flow_finish,
                                         flow_datagram, flow_wake,     flow_timer,   flow_stats, flow_closed};
static const dumbbell_plugin plugin = {DUMBBELL_ABI,
                                       P_COUNT,
                                       STACK_NAME,
                                       STACK_TITLE,
                                       "https://github.com/private-octopus/picoquic",
                                       params,
                                       NULL,
                                       NULL,
                                       &functions};
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void prepare(void) {
  crypto_register();
  picoquic_register_all_congestion_control_algorithms();
  for (size_t n = 0; n < picoquic_nb_congestion_control_algorithms && n < MOST; n++) {
    controls[n] = picoquic_congestion_control_algorithms[n]->congestion_algorithm_id;
  }
}

const dumbbell_plugin *dumbbell_describe(void) {
  pthread_once(&once, prepare);
  return &plugin;
}
