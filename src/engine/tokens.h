/* tokens: the purchase tokens of open sales that are handed out and not spent: one at most for each buyer in a sale.
 *
 * A token is good while it stands here, so that one that was spent, or never given, is told from a good one by its absence,
 * also after a restart. When it expires is no business of this room: a buyer who asks again gets the same nonce with a new
 * expiry, and takes nothing more of the sale's tokens_max. 32 bytes a token, and its buyer's name.
 *
 * Under the engine's lock. */
#ifndef STAMPEDE_ENGINE_TOKENS_H
#define STAMPEDE_ENGINE_TOKENS_H

#include "base/fault.h"
#include "base/index.h"
#include "engine/holdings.h"
#include "engine/texts.h"

#include <stdbool.h>
#include <stdint.h>

struct token {
    uint64_t nonce;
    uint32_t hash;
    uint32_t link;
    uint32_t newer, older; /* neighbours in the list of its sale, 0 at the ends */
    uint32_t buyer_cell;
    uint16_t slot;
    uint8_t buyer_len;
};

_Static_assert(sizeof(struct token) == 32, "two tokens to a cache line");

struct tokens {
    struct pool cells;
    struct texts buyers;
    struct index by_buyer;
};

enum fault tokens_open(struct tokens *tokens, uint32_t tokens_max) MUST_USE;
void tokens_close(struct tokens *tokens);

uint32_t tokens_find(const struct tokens *tokens, const struct holder *holder); /* its cell, or 0 */
static inline struct token *token_at(const struct tokens *tokens, uint32_t cell)
{
    return pool_cell(&tokens->cells, cell);
}
static inline struct slice token_buyer(const struct tokens *tokens, const struct token *token)
{
    return texts_at(&tokens->buyers, token->buyer_cell, token->buyer_len);
}

bool tokens_have_room(const struct tokens *tokens);
/* The buyer has none, and there is room. list: the head of the sale's list. */
void tokens_add(struct tokens *tokens, const struct holder *holder, uint64_t nonce, uint32_t *list);
/* Spent, or its sale is let go of. */
void tokens_drop(struct tokens *tokens, uint32_t cell, uint32_t *list);

uint64_t tokens_bytes(const struct tokens *tokens); /* of memory touched */

#endif
