/* secret_file: a file of secrets that only its owner may read, and passwords from there or from the environment. */
#ifndef STAMPEDE_BASE_SECRET_FILE_H
#define STAMPEDE_BASE_SECRET_FILE_H

#include "base/fault.h"
#include "base/slice.h"

#include <stdbool.h>
#include <stddef.h>

#define SECRET_FILE_FIRST_BYTES_MAX 1024

struct secret_file {
    const char *room; /* that reads it, for the log */
    const char *path;
    const char *what; /* is in it, for the log: "signing keys" */
    /* What a file has that is made because there is none; the length. NULL: it must be there. */
    size_t (*first)(char *out, size_t size);
};

/* Whether only those may read a file of this mode and owner who are to: its owner, or, where the owner is somebody else who
 * handed it to us (systemd's credentials, secrets of Kubernetes and of Docker), the group through which we read it. */
struct stat;
bool secret_file_kept(const struct stat *about);

/* All of it, until secret_file_release(). A file that is not kept, as above, is FAULT_CONFIG. What is wrong has been
 * logged, never with what the file says. */
enum fault secret_file_read(const struct secret_file *file, struct slice *out) MUST_USE;
void secret_file_release(struct slice text); /* wipes it */

/* A password that somebody else's server wants from us. */
#define PASSWORD_TEXT_BYTES 512
struct password_source {
    const char *room;
    const char *what;     /* it is, for the log: "password of the queue" */
    const char *path;     /* of a file whose first line it is; empty: there is none */
    const char *variable; /* of the environment, which counts where there is no file */
};
/* An empty text where neither has one. What is wrong has been logged: FAULT_CONFIG. Wipe it after use. */
enum fault password_find(char out[PASSWORD_TEXT_BYTES], const struct password_source *source) MUST_USE;

#endif
