/* TLS that hides nothing. Packets have the sizes that they have with AES-128-GCM and a key exchange over secp256r1; payload and headers stay
 * as they are, a tag tells whether sender and receiver have the same key, a certificate is a kilobyte of zeros, and nobody verifies it.
 *
 * Licence: MIT OR Apache-2.0. */
#include "stack.h"
#include <picotls.h> /* before picoquic's, which take it for granted */
#include <picotls/minicrypto.h>

#include <picoquic.h>
#include <picoquic_crypto_provider_api.h>
#include <picoquic_internal.h>
#include <stdlib.h>
#include <string.h>
#include <tls_api.h>

#define KEY 16u /* of AES-128 */
#define IV 12u
#define TAG 16u
#define PUBLIC 65u /* an uncompressed point of secp256r1 */
#define SECRET 32u
#define CERTIFICATE 1000u
#define SIGNATURE 71u /* of ECDSA with secp256r1, as most often */

/* --- packet protection -------------------------------------------------------------------------------------------- */

typedef struct {
  ptls_aead_context_t base;
  uint8_t iv[IV];
  uint64_t key;
} sealer;

static void sealer_dispose(ptls_aead_context_t *at) { (void)at; }
static void sealer_get_iv(ptls_aead_context_t *at, void *iv) { memcpy(iv, ((sealer *)at)->iv, IV); }
static void sealer_set_iv(ptls_aead_context_t *at, const void *iv) { memcpy(((sealer *)at)->iv, iv, IV); }

static void tag(const ptls_aead_context_t *at, uint64_t number, uint8_t *to) {
  const sealer *self = (const sealer *)at;
  uint64_t iv;
  memcpy(&iv, self->iv, sizeof iv);
  uint64_t halves[2] = {self->key ^ iv, (self->key + number) * 0x9e3779b97f4a7c15u};
  memcpy(to, halves, TAG);
}

static void seal_parts(ptls_aead_context_t *at, void *output, ptls_iovec_t *input, size_t parts, uint64_t number, const void *aad,
                       size_t aad_length) {
  (void)aad, (void)aad_length;
  uint8_t *to = output;
  for (size_t n = 0; n < parts; n++) {
    if (to != input[n].base) memmove(to, input[n].base, input[n].len);
    to += input[n].len;
  }
  tag(at, number, to);
}

static void seal(ptls_aead_context_t *at, void *output, const void *input, size_t length, uint64_t number, const void *aad,
                 size_t aad_length, ptls_aead_supplementary_encryption_t *header) {
  ptls_iovec_t one = ptls_iovec_init(input, length);
  seal_parts(at, output, &one, 1, number, aad, aad_length);
  if (header) memset(header->output, 0, sizeof header->output);
}

static size_t open_(ptls_aead_context_t *at, void *output, const void *input, size_t length, uint64_t number, const void *aad,
                    size_t aad_length) {
  (void)aad, (void)aad_length;
  uint8_t expected[TAG];
  if (length < TAG) return SIZE_MAX;
  tag(at, number, expected);
  if (memcmp(expected, (const uint8_t *)input + length - TAG, TAG) != 0) return SIZE_MAX;
  if (output != input) memmove(output, input, length - TAG);
  return length - TAG;
}

static int sealer_setup(ptls_aead_context_t *at, int is_sender, const void *key, const void *iv) {
  (void)is_sender;
  sealer *self = (sealer *)at;
  at->dispose_crypto = sealer_dispose;
  at->do_get_iv = sealer_get_iv;
  at->do_set_iv = sealer_set_iv;
  at->do_encrypt_init = NULL;
  at->do_encrypt_update = NULL;
  at->do_encrypt_final = NULL;
  at->do_encrypt = seal;
  at->do_encrypt_v = seal_parts;
  at->do_decrypt = open_;
  memcpy(self->iv, iv, IV);
  memcpy(&self->key, key, sizeof self->key);
  return 0;
}

/* --- header protection: a key stream of zeros --------------------------------------------------------------------- */

static void cipher_dispose(ptls_cipher_context_t *at) { (void)at; }
static void cipher_begin(ptls_cipher_context_t *at, const void *iv) { (void)at, (void)iv; }
static void cipher_copy(ptls_cipher_context_t *at, void *output, const void *input, size_t length) {
  (void)at;
  memmove(output, input, length);
}
static int cipher_setup(ptls_cipher_context_t *at, int is_sender, const void *key) {
  (void)is_sender, (void)key;
  at->do_dispose = cipher_dispose;
  at->do_init = cipher_begin;
  at->do_transform = cipher_copy;
  return 0;
}

/* The names are those that picoquic looks for. */
static ptls_cipher_algorithm_t stream = {
    .name = "AES128-CTR", .key_size = KEY, .block_size = 1, .iv_size = 16, .context_size = sizeof(ptls_cipher_context_t),
    .setup_crypto = cipher_setup};
static ptls_cipher_algorithm_t block = {
    .name = "AES128-ECB", .key_size = KEY, .block_size = 16, .iv_size = 0, .context_size = sizeof(ptls_cipher_context_t),
    .setup_crypto = cipher_setup};
static ptls_aead_algorithm_t aead = {
    .name = "AES128-GCM", .confidentiality_limit = UINT64_MAX, .integrity_limit = UINT64_MAX, .ctr_cipher = &stream,
    .ecb_cipher = &block, .key_size = KEY, .iv_size = IV, .tag_size = TAG, .context_size = sizeof(sealer),
    .setup_crypto = sealer_setup};
static ptls_cipher_suite_t suite = {
    .id = PTLS_CIPHER_SUITE_AES_128_GCM_SHA256, .aead = &aead, .hash = &ptls_minicrypto_sha256};

/* --- key exchange: public keys of zeros, and a secret of zeros ---------------------------------------------------- */

static int zeros(ptls_iovec_t *to, size_t length) {
  uint8_t *bytes = calloc(1, length);
  if (!bytes) return PTLS_ERROR_NO_MEMORY;
  *to = ptls_iovec_init(bytes, length);
  return 0;
}

static int exchange_end(ptls_key_exchange_context_t **at, int release, ptls_iovec_t *secret, ptls_iovec_t peer) {
  int failed = secret ? peer.len == PUBLIC ? zeros(secret, SECRET) : PTLS_ALERT_DECRYPT_ERROR : 0;
  if (release) {
    free((*at)->pubkey.base);
    free(*at);
    *at = NULL;
  }
  return failed;
}

static int exchange_begin(const struct st_ptls_key_exchange_algorithm_t *algorithm, ptls_key_exchange_context_t **at) {
  ptls_key_exchange_context_t *made = calloc(1, sizeof *made);
  if (!made || zeros(&made->pubkey, PUBLIC)) {
    free(made);
    return PTLS_ERROR_NO_MEMORY;
  }
  made->algo = algorithm;
  made->on_exchange = exchange_end;
  *at = made;
  return 0;
}

static int exchange(const struct st_ptls_key_exchange_algorithm_t *algorithm, ptls_iovec_t *public, ptls_iovec_t *secret,
                    ptls_iovec_t peer) {
  (void)algorithm;
  if (peer.len != PUBLIC) return PTLS_ALERT_DECRYPT_ERROR;
  if (zeros(public, PUBLIC)) return PTLS_ERROR_NO_MEMORY;
  if (zeros(secret, SECRET)) {
    free(public->base);
    *public = ptls_iovec_init(NULL, 0);
    return PTLS_ERROR_NO_MEMORY;
  }
  return 0;
}

static ptls_key_exchange_algorithm_t key_exchange = {
    .id = PTLS_GROUP_SECP256R1, .create = exchange_begin, .exchange = exchange, .name = "secp256r1"};
static ptls_key_exchange_algorithm_t *const key_exchanges[] = {&key_exchange, NULL};

/* --- certificate -------------------------------------------------------------------------------------------------- */

static int sign(ptls_sign_certificate_t *self, ptls_t *tls, ptls_async_job_t **job, uint16_t *chosen, ptls_buffer_t *output,
                ptls_iovec_t input, const uint16_t *algorithms, size_t count) {
  (void)self, (void)tls, (void)job, (void)input;
  static const uint8_t signature[SIGNATURE];
  if (count == 0) return PTLS_ALERT_HANDSHAKE_FAILURE;
  *chosen = algorithms[0];
  return ptls_buffer__do_pushv(output, signature, sizeof signature);
}

void crypto_register(void) {
  picoquic_tls_api_init();
  picoquic_register_ciphersuite(&suite, 1);
}

int crypto_prepare(picoquic_quic_t *quic) {
  ptls_context_t *tls = quic->tls_master_ctx;
  ptls_sign_certificate_t *signer = calloc(1, sizeof *signer);
  ptls_iovec_t *chain = calloc(1, sizeof *chain);
  if (!signer || !chain || zeros(chain, CERTIFICATE)) {
    free(signer);
    free(chain);
    return 0;
  }
  signer->cb = sign;
  tls->sign_certificate = signer;
  picoquic_set_tls_certificate_chain(quic, chain, 1);
  tls->key_exchanges = (ptls_key_exchange_algorithm_t **)key_exchanges;
  picoquic_set_null_verifier(quic);
  return picoquic_set_cipher_suite(quic, PICOQUIC_AES_128_GCM_SHA256) == 0;
}
