#include "base/random.h"

#include "base/log.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void random_bytes(void *out, size_t len)
{
    uint8_t *p = out;
    while (len > 0) {
        ssize_t got = getrandom(p, len, 0);
        if (got < 0) {
            if (errno == EINTR) continue;
            log_error("random", "the kernel gives no random bytes: %s", strerror(errno));
            abort();
        }
        p += got;
        len -= (size_t)got;
    }
}
