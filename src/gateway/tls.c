#include "gateway/tls.h"

#include "base/log.h"
#include "base/pem.h"
#include "base/secret_file.h"

#include <limits.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdlib.h>

struct tls {
    SSL *ssl;
    BIO *in, *out; /* owned by ssl */
};

static bool certificate_use(SSL_CTX *context, const char *path)
{
    const char *wrong = pem_file_objection(path);
    if (wrong == NULL && SSL_CTX_use_certificate_chain_file(context, path) != 1)
        wrong = pem_reason("it has no PEM certificate");
    if (wrong != NULL) log_error("tls", "cannot use the certificate %s: %s; tls_cert must be a PEM chain", path, wrong);
    return wrong == NULL;
}

/* OpenSSL would ask the terminal, and nobody sits there when the server is told to read its key again. */
static int passphrase_refuse(char *out, int size, int writing, void *asked)
{
    (void)out;
    (void)size;
    (void)writing;
    *(bool *)asked = true;
    return -1;
}

static bool key_use(SSL_CTX *context, const char *path)
{
    const struct secret_file file = { .room = "tls", .path = path, .what = "private key of TLS" };
    struct slice text;
    bool asked = false;
    if (secret_file_read(&file, &text) != FAULT_NONE) return false;
    BIO *bio = BIO_new_mem_buf(text.data, (int)text.len);
    EVP_PKEY *key = bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, passphrase_refuse, &asked) : NULL;
    bool good = key != NULL && SSL_CTX_use_PrivateKey(context, key) == 1 && SSL_CTX_check_private_key(context) == 1;
    EVP_PKEY_free(key);
    BIO_free(bio);
    secret_file_release(text);
    if (!good) {
        const char *reason = pem_reason("it has no PEM key");
        log_error("tls", "cannot use the key %s: %s; tls_key must be the PEM key of tls_cert", path,
                  asked ? "it wants a passphrase" : reason);
    }
    return good;
}

enum fault tls_context_open(SSL_CTX **out, const char *cert_path, const char *key_path)
{
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (context == NULL) return FAULT_MEMORY;
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_CIPHER_SERVER_PREFERENCE);
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS); /* idle connections give their buffers back */
    ERR_clear_error();
    if (!certificate_use(context, cert_path) || !key_use(context, key_path)) {
        SSL_CTX_free(context);
        return FAULT_CONFIG;
    }
    *out = context;
    return FAULT_NONE;
}

void tls_context_close(SSL_CTX *context)
{
    SSL_CTX_free(context);
}

enum fault tls_open(struct tls **out, SSL_CTX *context)
{
    struct tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL) return FAULT_MEMORY;
    tls->ssl = SSL_new(context);
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (tls->ssl == NULL || tls->in == NULL || tls->out == NULL) {
        SSL_free(tls->ssl);
        BIO_free(tls->in);
        BIO_free(tls->out);
        free(tls);
        return FAULT_MEMORY;
    }
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    SSL_set_accept_state(tls->ssl);
    *out = tls;
    return FAULT_NONE;
}

void tls_close(struct tls *tls)
{
    SSL_free(tls->ssl);
    free(tls);
}

bool tls_established(const struct tls *tls)
{
    return SSL_is_init_finished(tls->ssl) == 1;
}

enum fault tls_feed(struct tls *tls, const char *data, size_t len)
{
    return BIO_write(tls->in, data, (int)len) == (int)len ? FAULT_NONE : FAULT_MEMORY;
}

long tls_read(struct tls *tls, char *out, size_t size)
{
    ERR_clear_error();
    int got = SSL_read(tls->ssl, out, (int)size);
    if (got > 0) return got;
    int error = SSL_get_error(tls->ssl, got);
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

enum fault tls_write(struct tls *tls, const char *data, size_t len)
{
    ERR_clear_error();
    return SSL_write(tls->ssl, data, (int)len) == (int)len ? FAULT_NONE : FAULT_MEMORY;
}

void tls_goodbye(struct tls *tls)
{
    if (SSL_is_init_finished(tls->ssl)) SSL_shutdown(tls->ssl);
    ERR_clear_error();
}

size_t tls_output(struct tls *tls, const char **data)
{
    char *bytes;
    long len = BIO_get_mem_data(tls->out, &bytes);
    *data = bytes;
    return len > 0 ? (size_t)len : 0;
}

void tls_output_taken(struct tls *tls)
{
    (void)BIO_reset(tls->out);
}
