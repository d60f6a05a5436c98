/* peers: how many connections each address has, exactly, in memory fixed at start.
 *
 * Counted by the address at the other end of the socket (its rate key), known before a byte has been read. A proxy has many
 * clients, so a connection of one is not counted: whoever asks proxies_trust() first remembers the answer for peers_leave().
 * Any thread; accepting and closing hold one short lock. */
#ifndef STAMPEDE_GUARD_PEERS_H
#define STAMPEDE_GUARD_PEERS_H

#include "base/fault.h"
#include "base/address.h"

#include <stdbool.h>
#include <stdint.h>

struct peers;

/* connections_max: all that are counted at once. per_peer_max 0: no limit, counted all the same. */
enum fault peers_open(struct peers **out, uint32_t connections_max, uint32_t per_peer_max) MUST_USE;
void peers_close(struct peers *peers);
/* True: counted, and peers_leave() must follow. False: the address has as many as it may, or all places are taken. */
bool peers_enter(struct peers *peers, const struct address *address);
void peers_leave(struct peers *peers, const struct address *address);
/* A lower limit ends no connection: those that are there stay, new ones are refused until there are fewer. */
void peers_set_max(struct peers *peers, uint32_t per_peer_max);

#endif
