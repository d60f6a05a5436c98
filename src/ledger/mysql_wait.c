/* How long a thread waits for MySQL, and whether it says so.
 *
 * The library counts in seconds, from each packet anew, and hands its question over without an argument: what a thread is
 * ready to wait stands beside the thread.
 *
 * Under TLS it leaves the wait to a socket that blocks, and asks us only when that has given up: so it is made to do so
 * soon. What is sent is left as it is, for of that the library asks as if it were to be read. */
#include "base/clock.h"
#include "base/log.h"
#include "ledger/mysql.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#define SAY_MS 3000
#define STEP_MS_MAX 60000
#define TLS_READ_MS 100

static _Thread_local struct {
    bool set;
    uint64_t until_ms; /* 0: as the library says; UINT64_MAX: without an end */
    const char *whom;
} patience;

void mysql_patience_begin(uint32_t ms, const char *whom)
{
    assert(!patience.set);
    patience.set = true;
    patience.until_ms = ms != 0 ? mono_ms() + ms : 0;
    patience.whom = whom;
}

void mysql_patience_end(void)
{
    assert(patience.set);
    patience.set = false;
    patience.until_ms = 0;
    patience.whom = NULL;
}

void mysql_patience_endless(bool endless)
{
    assert(patience.set && patience.until_ms == (endless ? 0 : UINT64_MAX));
    patience.until_ms = endless ? UINT64_MAX : 0;
}

bool mysql_patience_is_over(void)
{
    return patience.until_ms != 0 && mono_ms() >= patience.until_ms;
}

static void waiting_say(uint64_t waited_ms, uint64_t left_ms)
{
    unsigned waited_s = (unsigned)(waited_ms / 1000), left_s = (unsigned)((left_ms + 999) / 1000);
    if (left_ms != UINT64_MAX)
        log_warn("ledger", "%s has not answered for %u s: waiting for it, %u s more at most", patience.whom, waited_s,
                 left_s);
    else
        log_warn("ledger", "%s has not answered for %u s: waiting for it", patience.whom, waited_s);
}

void mysql_wait_under_tls(my_socket fd)
{
    struct timeval soon = { .tv_usec = 1000 * TLS_READ_MS };
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
}

/* Under TLS the library hands over its seconds as they are. All that it was told are whole ones: less is no milliseconds. */
static uint64_t library_until_ms(int given, uint64_t now_ms)
{
    if (given <= 0) return UINT64_MAX;
    return now_ms + (given < 1000 ? 1000 * (uint64_t)given : (uint64_t)given);
}

/* As poll() answers for one: what the library would do itself. */
int mysql_wait(my_socket fd, my_bool is_read, int library_ms)
{
    struct pollfd line = { .fd = fd, .events = is_read ? POLLIN : POLLOUT };
    uint64_t began_ms = mono_ms(), now_ms = began_ms, said_ms = began_ms;
    uint64_t until_ms = patience.until_ms != 0 ? patience.until_ms : library_until_ms(library_ms, began_ms);
    for (;;) {
        uint64_t left_ms = until_ms > now_ms ? until_ms - now_ms : 0;
        uint64_t step_ms = left_ms < STEP_MS_MAX ? left_ms : STEP_MS_MAX;
        if (patience.whom != NULL && said_ms + SAY_MS - now_ms < step_ms) step_ms = said_ms + SAY_MS - now_ms;
        int rc = poll(&line, 1, (int)step_ms);
        if (rc > 0 || (rc < 0 && errno != EINTR)) return rc;
        now_ms = mono_ms();
        if (now_ms >= until_ms) {
            errno = ETIMEDOUT;
            return 0;
        }
        if (patience.whom != NULL && now_ms >= said_ms + SAY_MS) {
            said_ms = now_ms;
            waiting_say(now_ms - began_ms, until_ms == UINT64_MAX ? UINT64_MAX : until_ms - now_ms);
        }
    }
}
