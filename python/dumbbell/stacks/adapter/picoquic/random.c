/* Random numbers of picoquic and picotls. Theirs come from the system, and one generator serves all connections of a process. Here each
 * connection has a generator of its own, seeded by the run: the linker sends their calls here (--wrap).
 *
 * Licence: MIT OR Apache-2.0. */
#include "stack.h"
#include <string.h>

static generator spare; /* for calls outside of a connection; there are none */
static _Thread_local generator *current = &spare;

void random_use(generator *from) { current = from; }

/* SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. */
uint64_t __wrap_picoquic_public_random_64(void) {
  uint64_t z = current->state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

void __wrap_picoquic_public_random(void *to, size_t length) {
  uint8_t *bytes = to;
  while (length > 0) {
    uint64_t drawn = __wrap_picoquic_public_random_64();
    size_t part = length < sizeof drawn ? length : sizeof drawn;
    memcpy(bytes, &drawn, part);
    bytes += part;
    length -= part;
  }
}

/* 0 to `limit` - 1, all equally often. */
uint64_t __wrap_picoquic_public_uniform_random(uint64_t limit) {
  uint64_t drawn, least = UINT64_MAX % limit;
  do {
    drawn = __wrap_picoquic_public_random_64();
  } while (drawn < least);
  return drawn % limit;
}

struct st_picoquic_quic_t;
void __wrap_picoquic_public_random_seed(struct st_picoquic_quic_t *quic) { (void)quic; }

void __wrap_ptls_minicrypto_random_bytes(void *to, size_t length) { __wrap_picoquic_public_random(to, length); }
