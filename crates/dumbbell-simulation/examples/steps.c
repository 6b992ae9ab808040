/* Finds out what a lower target of CoDel does from one second on, in the same situation as before: prints time, backlog and digest. */
#include "dumbbell_simulation.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char config[] =
    "{\"duration\": 3000000000, \"bottleneck\": {\"rate\": 10000000, \"aqm\": {\"name\": \"codel\"}},"
    " \"flows\": [{\"cc\": {\"name\": \"cubic\"}, \"base_rtt\": 20000000}]}";

/* The text behind the first `"key":` of JSON, up to a comma or brace. */
static void print_value(const char *json, const char *key) {
  const char *at = strstr(json, key);
  if (!at) exit(3);
  at += strlen(key);
  printf("%s%.*s\n", key, (int)strcspn(at, ",}"), at);
}

int main(void) {
  char error[200];
  dumbbell_simulation *one = dumbbell_simulation_new(config, 1, error, sizeof error);
  if (!one) {
    fprintf(stderr, "%s\n", error);
    return 1;
  }
  if (dumbbell_simulation_step(one, 1000000000, error, sizeof error) != 0) return 2;
  dumbbell_simulation *kept = dumbbell_simulation_snapshot(one, error, sizeof error);
  if (!kept) return 2;

  /* the same second, with two targets */
  const char *targets[] = {"5000000", "50000000"};
  for (int n = 0; n < 2; n++) {
    if (dumbbell_simulation_restore(one, kept, error, sizeof error)) return 2;
    if (dumbbell_simulation_set(one, "bottleneck.aqm.target", targets[n], error, sizeof error)) return 2;
    if (dumbbell_simulation_step(one, 2000000000, error, sizeof error) != 0) return 2;
    print_value(dumbbell_simulation_view(one), "\"backlog_packets\":");
  }

  /* what cannot change is refused, and changes nothing */
  if (dumbbell_simulation_set(one, "bottleneck.aqm.control_law", "\"rfc8289\"", error, sizeof error) != -1) return 2;
  printf("%s\n", error);

  /* events of packets, from the state that was kept on */
  if (dumbbell_simulation_restore(one, kept, error, sizeof error)) return 2;
  unsigned long drops = 0;
  dumbbell_simulation_event events[64];
  int over = 0;
  while (!over) {
    over = dumbbell_simulation_step(one, dumbbell_simulation_time(one) + 100000000, error, sizeof error);
    if (over < 0) return 2;
    for (size_t count; (count = dumbbell_simulation_events(one, events, 64)) > 0;)
      for (size_t n = 0; n < count; n++) drops += strcmp(events[n].event, "drop") == 0;
  }
  printf("drops: %lu\n", drops);
  print_value(dumbbell_simulation_finish(one, error, sizeof error), "\"digest\":");
  dumbbell_simulation_free(one);
  dumbbell_simulation_free(kept);
  return 0;
}
