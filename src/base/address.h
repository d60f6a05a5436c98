/* address: where a request comes from, and networks of such places. 16 bytes, IPv4 as IPv6 has it mapped (::ffff:a.b.c.d),
 * so that one client has one address whichever socket it came through. Plain values, any thread. */
#ifndef STAMPEDE_BASE_ADDRESS_H
#define STAMPEDE_BASE_ADDRESS_H

#include "base/slice.h"

#include <stdbool.h>
#include <stdint.h>

struct sockaddr;

#define ADDRESS_TEXT_BYTES 46 /* the longest IPv6 text and its NUL */
#define NETWORK_TEXT_BYTES (ADDRESS_TEXT_BYTES + 4)
#define ADDRESS_MISTAKE_BYTES 256

struct address {
    uint8_t bytes[16];
};

/* The addresses that begin with the same bits. An IPv4 network has 96 bits more here than it is written with. */
struct network {
    struct address address; /* bits beyond the prefix are 0 */
    uint8_t bits;
};

/* An address and nothing else: no port, no brackets, no zone, no leading zeros in IPv4. */
bool address_parse(struct address *out, struct slice text);
/* IPV4:PORT or [IPV6]:PORT, as one listens; nothing may be left out. */
bool address_parse_port(struct address *out, uint16_t *port, struct slice text);
/* An address, with what proxies put around it: spaces, [IPV6], [IPV6]:PORT, IPV4:PORT. */
bool address_parse_hop(struct address *out, struct slice text);
/* False for a socket that has no IP address, such as a local one. */
bool address_from_sockaddr(struct address *out, const struct sockaddr *from);
void address_print(char out[ADDRESS_TEXT_BYTES], const struct address *address);
bool address_is_v4(const struct address *address);
bool address_equal(const struct address *a, const struct address *b);

/* What rates count as one: an IPv4 address, or the /64 of an IPv6 address, which one household has all of. */
struct address address_rate_key(const struct address *address);

/* ADDRESS/BITS, or an address alone for just that one. Bits set beyond the prefix are a mistake: whoever wrote 10.0.0.1/8
 * meant something else than 10.0.0.0/8. NULL: read; else what is wrong with it, to stand after its name, without a period,
 * and out is of no use. */
const char *network_read(struct network *out, struct slice text);
/* The same. False: mistake is a sentence that shows the text. */
bool network_parse(struct network *out, struct slice text, char mistake[ADDRESS_MISTAKE_BYTES]);
void network_print(char out[NETWORK_TEXT_BYTES], const struct network *network); /* an address alone without its bits */
/* IPv4 addresses are in IPv4 networks only: ::/0 is all of IPv6 and none of IPv4. */
bool network_has(const struct network *network, const struct address *address);

#define NETWORKS_MAX 32
struct networks {
    struct network each[NETWORKS_MAX];
    uint32_t count;
};

/* Separated by commas; an empty text is none. False: nothing was changed and mistake is a sentence. */
bool networks_parse(struct networks *out, struct slice text, char mistake[ADDRESS_MISTAKE_BYTES]);
bool networks_have(const struct networks *networks, const struct address *address);

#endif
