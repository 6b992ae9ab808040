/* A burst of datagrams over 10 Mbit/s and CoDel with ECN: pushed, popped, counted. */
#include "dumbbell_net.h"

#include <stdio.h>
#include <string.h>

static const char *TEXT =
    "rate = '10Mbit'\n"
    "aqm = { name = 'codel', ecn = true }\n"
    "delay = '10ms'\n";

int main(void) {
  char error[200];

  /* an error names line and key */
  if (dumbbell_net_new("aqm = 'codel'\nrate = '10'\n", 1, 0, error, sizeof error))
    return 1;
  printf("error: %s\n", error);

  dumbbell_net *net = dumbbell_net_new(TEXT, 1, 0, error, sizeof error);
  if (!net) {
    fprintf(stderr, "%s\n", error);
    return 1;
  }
  /* 300 datagrams at once: they take 363 ms, so that CoDel marks some */
  for (uint32_t number = 0; number < 300; number++) {
    dumbbell_net_frame frame = {.flow = 1, .length = 1472 + DUMBBELL_NET_UDP_HEADERS, .ecn = DUMBBELL_NET_ECT0};
    if (!dumbbell_net_push(net, 0, frame, &number, sizeof number))
      return 1;
  }
  uint32_t expected = 0, marked = 0;
  uint64_t last = 0, next;
  while ((next = dumbbell_net_next(net)) != DUMBBELL_NET_NEVER) {
    dumbbell_net_arrival arrival;
    while (dumbbell_net_pop(net, next, &arrival)) {
      uint32_t number;
      if (arrival.size != sizeof number || arrival.at < last)
        return 1;
      memcpy(&number, arrival.bytes, sizeof number);
      if (number != expected++)
        return 1;
      marked += arrival.frame.ecn == DUMBBELL_NET_CE;
      last = arrival.at;
    }
  }
  dumbbell_net_counters counters;
  dumbbell_net_count(net, &counters);
  printf("popped %llu of %llu, the last at %llu ns\n", (unsigned long long)counters.popped,
         (unsigned long long)counters.pushed, (unsigned long long)last);
  printf("CE marks: %llu counted, %u seen\n", (unsigned long long)counters.ce_marks, marked);
  dumbbell_net_free(net);
  return counters.held != 0 || counters.ce_marks != marked;
}
