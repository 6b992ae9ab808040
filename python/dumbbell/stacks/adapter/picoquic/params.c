/* The parameters: what picoquic's own settings are called there, with their defaults.
 *
 * Licence: MIT OR Apache-2.0. */
#include "stack.h"
#include <picoquic.h>
#include <picoquic_internal.h>

#define LARGEST 1099511627776.0 /* 2^40 bytes; a variable-length integer has 62 bits */
#define US 1e3
#define MS 1e6
#define MINUTE 60e9

const dumbbell_param params[P_COUNT] = {
    [P_MTU] = {"mtu", DUMBBELL_INT, PICOQUIC_PRACTICAL_MAX_MTU, PICOQUIC_ENFORCED_INITIAL_MTU, 1472, "bytes",
               "UDP payload of a full packet, at most what the link takes (1500 bytes less the headers of IPv4 and UDP); the stack's own start is 1252, and then a search"},
    [P_MTU_DISCOVERY] = {"mtu_discovery", DUMBBELL_BOOL, 0, 0, 1, "", "start with 1252 bytes and search up to mtu"},
    [P_MAX_DATA] = {"max_data", DUMBBELL_SIZE, 0, 0, LARGEST, "", "flow control window of the connection; 0: it grows as it is used"},
    [P_INITIAL_MAX_DATA] = {"initial_max_data", DUMBBELL_SIZE, PICOQUIC_INITIAL_FLOW_CONTROL_MAX, 1e3, LARGEST, "",
                            "flow control window of the connection at its begin"},
    [P_INITIAL_MAX_STREAM_DATA] = {"initial_max_stream_data", DUMBBELL_SIZE, 65535, 1e3, LARGEST, "",
                                   "flow control window of the stream at its begin"},
    [P_CWIN_MAX] = {"cwin_max", DUMBBELL_SIZE, 0, 0, LARGEST, "", "largest congestion window; 0: without limit"},
    [P_SEED_CWIN] = {"seed_cwin", DUMBBELL_SIZE, 0, 0, LARGEST, "",
                     "window of an earlier connection, for careful resume; 0: there was none"},
    [P_SEED_RTT] = {"seed_rtt", DUMBBELL_TIME, 0, 0, MINUTE, "", "smallest RTT of the earlier connection"},
    [P_ACK_FREQUENCY] = {"ack_frequency", DUMBBELL_BOOL, 1, 0, 1, "", "the client may ask for rarer acknowledgements"},
    [P_MIN_ACK_DELAY] = {"min_ack_delay", DUMBBELL_TIME, PICOQUIC_ACK_DELAY_MIN *US, US, 16e3 * MS, "",
                         "smallest delay of acknowledgements that the client may ask for"},
    [P_MAX_ACK_DELAY] = {"max_ack_delay", DUMBBELL_TIME, PICOQUIC_ACK_DELAY_MAX *US, 0, 16e3 * MS, "",
                         "delay of acknowledgements unless the client asks for another"},
    [P_PREEMPTIVE_REPEAT] = {"preemptive_repeat", DUMBBELL_BOOL, 0, 0, 1, "", "send the end of the stream again before it is lost"},
    [P_PACKET_TRAIN] = {"packet_train", DUMBBELL_BOOL, 0, 0, 1, "", "pace in trains of packets"},
    [P_SEQUENCE_HOLES] = {"sequence_holes", DUMBBELL_INT, PICOQUIC_DEFAULT_HOLE_PERIOD, 0, 1e6, "packets",
                          "packets between numbers that are left out to detect optimistic acknowledgements; 0: none"},
    [P_BBR_EXPERIMENT] = {"bbr_experiment", DUMBBELL_BOOL, 1, 0, 1, "", "bbr with the tree's additions to version 3"},
    [P_WIFI_SHADOW_RTT] = {"wifi_shadow_rtt", DUMBBELL_TIME, 0, 0, MINUTE, "", "bbr and bbr1: RTT down to which Wi-Fi is reckoned with"},
    [P_BBR_QUANTUM_RATIO] = {"bbr_quantum_ratio", DUMBBELL_FLOAT, 0, 0, 1, "", "bbr and bbr1: burst, in shares of the BDP; 0: their own"},
};
