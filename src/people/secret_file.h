/* secret_file: a file of secrets that only its owner may read. */
#ifndef STAMPEDE_PEOPLE_SECRET_FILE_H
#define STAMPEDE_PEOPLE_SECRET_FILE_H

#include "base/fault.h"
#include "base/slice.h"

#include <stddef.h>

#define SECRET_FILE_FIRST_BYTES_MAX 1024

struct secret_file {
    const char *path;
    const char *what; /* is in it, for the log: "signing keys" */
    /* What a file has that is made because there is none; the length. NULL: it must be there. */
    size_t (*first)(char *out, size_t size);
};

/* All of it, until secret_file_release(). A file that others may read or write is FAULT_CONFIG. What is wrong has been
 * logged, never with what the file says. */
enum fault secret_file_read(const struct secret_file *file, struct slice *out) MUST_USE;
void secret_file_release(struct slice text); /* wipes it */

#endif
