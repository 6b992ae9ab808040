# The two libraries of picotls that picoquic needs, from the tree PICOTLS. Its own project also has tests, which need a submodule, and asks for
# pkg-config.
set(sources lib/hpke.c lib/picotls.c lib/pembase64.c)
list(TRANSFORM sources PREPEND "${PICOTLS}/")
add_library(picotls-core STATIC ${sources})
target_include_directories(picotls-core PUBLIC "${PICOTLS}/include")

file(GLOB sources "${PICOTLS}/lib/cifra/*.c")
list(FILTER sources EXCLUDE REGEX "aegis")
foreach(name lib/cifra lib/minicrypto-pem lib/uecc lib/asn1 lib/ffx deps/micro-ecc/uECC)
  list(APPEND sources "${PICOTLS}/${name}.c")
endforeach()
foreach(name aes blockwise chacha20 chash curve25519 drbg hmac gcm gf128 modes poly1305 sha256 sha512)
  list(APPEND sources "${PICOTLS}/deps/cifra/src/${name}.c")
endforeach()
add_library(picotls-minicrypto STATIC ${sources})
target_include_directories(picotls-minicrypto PRIVATE "${PICOTLS}/deps/cifra/src/ext" "${PICOTLS}/deps/cifra/src" "${PICOTLS}/deps/micro-ecc")
target_link_libraries(picotls-minicrypto PUBLIC picotls-core)

# what picoquic's project looks for
set(PTLS_INCLUDE_DIR "${PICOTLS}/include" CACHE PATH "")
set(PTLS_CORE_LIBRARY picotls-core CACHE STRING "")
set(PTLS_MINICRYPTO_LIBRARY picotls-minicrypto CACHE STRING "")
# picoquic's project exports its library, and wants to know all that it is linked with
install(TARGETS picotls-core picotls-minicrypto EXPORT picoquic-targets)
