#include "base/pem.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509err.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

const char *pem_file_objection(const char *path)
{
    struct stat about;
    if (stat(path, &about) != 0) return strerror(errno);
    return S_ISREG(about.st_mode) ? NULL : "it is not a file";
}

/* The first error is the cause; those after it say who met it. */
const char *pem_reason(const char *without)
{
    unsigned long error = ERR_peek_error();
    const char *reason = ERR_SYSTEM_ERROR(error) ? strerror((int)ERR_GET_REASON(error)) : ERR_reason_error_string(error);
    int lib = ERR_GET_LIB(error), code = ERR_GET_REASON(error);
    bool empty = (lib == ERR_LIB_PEM && code == PEM_R_NO_START_LINE) || lib == ERR_LIB_OSSL_DECODER ||
                 (lib == ERR_LIB_X509 && code == X509_R_NO_CERTIFICATE_OR_CRL_FOUND);
    if (empty) reason = without;
    ERR_clear_error();
    return reason != NULL ? reason : "unknown reason";
}
