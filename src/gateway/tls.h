/* tls: OpenSSL between the bytes of a socket and those of HTTP, over memory buffers. TLS 1.2 and later. */
#ifndef STAMPEDE_GATEWAY_TLS_H
#define STAMPEDE_GATEWAY_TLS_H

#include "base/fault.h"

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>

struct tls;

/* Loads certificate chain and key, which is a file of secrets; what is wrong with them is logged in one line. */
enum fault tls_context_open(SSL_CTX **out, const char *cert_path, const char *key_path) MUST_USE;
void tls_context_close(SSL_CTX *context);

enum fault tls_open(struct tls **out, SSL_CTX *context) MUST_USE;
void tls_close(struct tls *tls);
bool tls_established(const struct tls *tls); /* the handshake is done */
/* Bytes from the socket. */
enum fault tls_feed(struct tls *tls, const char *data, size_t len) MUST_USE;
/* Plain bytes out of what was fed: their number, 0 for none at present, -1 for an end or a failed handshake. */
long tls_read(struct tls *tls, char *out, size_t size);
/* Encrypts; the result is in tls_output(). */
enum fault tls_write(struct tls *tls, const char *data, size_t len) MUST_USE;
void tls_goodbye(struct tls *tls);
/* Bytes for the socket, also of the handshake; gone with tls_output_taken(). */
size_t tls_output(struct tls *tls, const char **data);
void tls_output_taken(struct tls *tls);

#endif
