/* owned: a key of Redis that one owner has at a time, until an end that only its owner puts off. Inside this room only; the
 * keeper's thread. Locks (lock.h) and the numbers of nodes (lease.h) are such keys. */
#ifndef STAMPEDE_GATE_KEEPER_OWNED_H
#define STAMPEDE_GATE_KEEPER_OWNED_H

#include <stdbool.h>
#include <stdint.h>

struct keeper;

#define OWNED_KEY_BYTES 160
#define OWNED_OWNER_BYTES 160

struct owned {
    char key[OWNED_KEY_BYTES], owner[OWNED_OWNER_BYTES];
};

/* Puts the owner's name together: who it is, for people, and something that no other has. */
void owned_sign(struct owned *owned, const char *who);

struct owned_answer {
    bool ours; /* until so many ms after it was asked for */
    char owner[OWNED_OWNER_BYTES];
    uint64_t left_ms;
};
/* Both are false where Redis did not answer. take: also where nobody has it; renew: only where it is ours. */
bool owned_take(const struct owned *owned, struct keeper *keeper, uint32_t ms, struct owned_answer *out);
bool owned_renew(const struct owned *owned, struct keeper *keeper, uint32_t ms, struct owned_answer *out);
/* Where it is ours. False: Redis did not answer, and it ends by itself. */
bool owned_release(const struct owned *owned, struct keeper *keeper);

#endif
