/* agreed: what all nodes of a shop must agree on, as texts by name. Whoever comes first says it; the others find it. */
#ifndef STAMPEDE_LEDGER_AGREED_H
#define STAMPEDE_LEDGER_AGREED_H

#include "ledger/ledger.h"

#define AGREED_BYTES 65

#define AGREED_PAYMENTS "payments" /* fingerprint of a secret of the payment provider */
#define AGREED_UUID "uuid"         /* of the shop's decisions, in hexadecimal */
#define AGREED_KEYS "keys"         /* fingerprint of the key that signs logins and purchase tokens */
#define AGREED_LIMITS "limits"     /* secret that names of users and addresses are hashed with, in hexadecimal */
#define AGREED_GATE "gate"         /* "redis": orders have numbers that no journal has given */
#define AGREED_PREFIX "prefix"     /* of the keys in Redis: under another a sale would be sold a second time */
#define AGREED_DATABASE "database" /* the number of Redis's own that they are in */

/* Keeps value under name unless there is one; kept is what stands there now. */
enum fault ledger_agree(struct ledger *ledger, const char *name, const char *value, char kept[AGREED_BYTES]) MUST_USE;
/* Empty where nobody has said it. */
enum fault ledger_agreed(struct ledger *ledger, const char *name, char kept[AGREED_BYTES]) MUST_USE;
/* Instead of what stands there. */
enum fault ledger_agree_anew(struct ledger *ledger, const char *name, const char *value) MUST_USE;
/* The sale of a seller that has this name; 0: there never was one. */
enum fault ledger_sale_named(struct ledger *ledger, struct slice seller, struct slice name, uint64_t *id) MUST_USE;

#endif
