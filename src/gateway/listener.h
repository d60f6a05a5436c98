/* listener: listening sockets that share one port. */
#ifndef STAMPEDE_GATEWAY_LISTENER_H
#define STAMPEDE_GATEWAY_LISTENER_H

#include "base/fault.h"

#include <stdint.h>

/* Binds count sockets to ADDR:PORT ([ADDR]:PORT for IPv6). The first binds plainly, so that a port somebody else has, even
 * one of our own kind, is FAULT_IN_USE; only then do the others join it with SO_REUSEPORT. bound gets HOST:PORT. option is
 * its name, for the log. */
enum fault listener_open(const char *option, const char *address, uint32_t count, int *fds, char bound[80]) MUST_USE;

#endif
