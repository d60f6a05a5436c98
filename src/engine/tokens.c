#include "engine/tokens.h"

#include <assert.h>

enum fault tokens_open(struct tokens *tokens, uint32_t tokens_max)
{
    *tokens = (struct tokens){ 0 };
    enum fault fault = pool_open(&tokens->cells, sizeof(struct token), tokens_max);
    if (fault == FAULT_NONE) fault = texts_open(&tokens->buyers, tokens_max);
    if (fault == FAULT_NONE)
        fault = index_open(&tokens->by_buyer, &tokens->cells, offsetof(struct token, hash), offsetof(struct token, link));
    if (fault != FAULT_NONE) tokens_close(tokens);
    return fault;
}

void tokens_close(struct tokens *tokens)
{
    index_close(&tokens->by_buyer);
    texts_close(&tokens->buyers);
    pool_close(&tokens->cells);
}

/* As with orders, a slot says which sale. */
uint32_t tokens_find(const struct tokens *tokens, const struct holder *holder)
{
    uint32_t cell = index_first(&tokens->by_buyer, (uint32_t)holder->hash);
    while (cell != 0) {
        const struct token *token = token_at(tokens, cell);
        if (token->slot == holder->slot && slice_equal(token_buyer(tokens, token), holder->buyer)) break;
        cell = index_next(&tokens->by_buyer, cell);
    }
    return cell;
}

bool tokens_have_room(const struct tokens *tokens)
{
    return tokens->cells.used < tokens->cells.cells_max;
}

void tokens_add(struct tokens *tokens, const struct holder *holder, uint64_t nonce, uint32_t *list)
{
    assert(nonce != 0);
    assert(holder->buyer.len > 0 && holder->buyer.len <= BUYER_BYTES_MAX);
    uint32_t cell = pool_acquire(&tokens->cells);
    assert(cell != 0);
    *token_at(tokens, cell) = (struct token){
        .nonce = nonce,
        .hash = (uint32_t)holder->hash,
        .older = *list,
        .buyer_cell = texts_put(&tokens->buyers, holder->buyer),
        .slot = (uint16_t)holder->slot,
        .buyer_len = (uint8_t)holder->buyer.len,
    };
    if (*list != 0) token_at(tokens, *list)->newer = cell;
    *list = cell;
    index_put(&tokens->by_buyer, cell);
}

void tokens_drop(struct tokens *tokens, uint32_t cell, uint32_t *list)
{
    assert(cell != 0);
    const struct token *token = token_at(tokens, cell);
    if (token->older != 0) token_at(tokens, token->older)->newer = token->newer;
    if (token->newer != 0) {
        token_at(tokens, token->newer)->older = token->older;
    } else {
        assert(*list == cell);
        *list = token->older;
    }
    index_remove(&tokens->by_buyer, cell);
    texts_drop(&tokens->buyers, token->buyer_cell, token->buyer_len);
    pool_release(&tokens->cells, cell);
}

uint64_t tokens_bytes(const struct tokens *tokens)
{
    return (uint64_t)tokens->cells.fresh * tokens->cells.cell_bytes + texts_bytes(&tokens->buyers) +
           index_bytes(&tokens->by_buyer);
}
