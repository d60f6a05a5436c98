/* What the crowd is told without the lock, from the board outside the sale and the index of buyers. */
#include "engine/buyer.h"
#include "engine/engine_state.h"

#include <assert.h>

enum verdict token_lacking(const struct grab *grab, enum admission admission)
{
    if (grab->trusted || !admission_takes_tokens(admission) || grab->token_nonce != 0) return VERDICT_DONE;
    if (grab->token_brought) return VERDICT_TOKEN_INVALID;
    return admission == ADMISSION_TOKEN ? VERDICT_TOKEN_REQUIRED : VERDICT_DONE;
}

static bool notice_is_closed(const struct board_notice *notice, uint64_t now_ms)
{
    return notice->closed || (notice->closes_ms != 0 && now_ms >= notice->closes_ms);
}

/* Certainly, and while the notice stood there: a sale that is let go of takes its notice away before its orders go. */
static bool holder_has_nothing(const struct engine *engine, const struct holder *holder, const struct board_notice *notice)
{
    return !holdings_may_hold(&engine->holdings, holder) && board_is_still(board_at(engine, notice->sale_id), notice);
}

/* Every check of the full decision that comes before the answer must come here too; where one fails, the full decision says
 * so. Fewer left than asked is not enough for one who may take them: what is left may be enough for the next one, and only
 * the lock can tell who that is. A token that the guard has found good is good: it could only be spent by a win, and who has
 * won nothing has spent none. */
enum verdict engine_refuse_early(const struct engine *engine, const struct grab *grab)
{
    struct board_notice notice;
    if (!board_read(board_at(engine, grab->sale_id), &notice)) return VERDICT_DONE;
    enum verdict token = token_lacking(grab, notice.admission);
    if (notice.available != 0 && token == VERDICT_DONE && !grab->turned_away) return VERDICT_DONE;
    if (grab->sale_id == 0 || notice.sale_id != grab->sale_id) return VERDICT_DONE;
    if (!grab_is_well_formed(grab) || buyer_is_made_up(grab->buyer)) return VERDICT_DONE;
    if (notice_is_closed(&notice, grab->now_ms)) return VERDICT_DONE;
    if (grab->now_ms < notice.opens_ms) return VERDICT_DONE;
    if (notice.paused) return VERDICT_DONE;
    if (token == VERDICT_DONE && grab->units > notice.units_per_grab_max) return VERDICT_DONE;

    char name[BUYER_BYTES_MAX + 1];
    struct slice buyer = buyer_of(grab, notice.admission, 0, name);
    if (buyer.len == 0) return VERDICT_DONE;
    struct holder holder = holder_hashed(&engine->holdings, grab->sale_id, buyer, grab->hash);
    if (!holder_has_nothing(engine, &holder, &notice)) return VERDICT_DONE;
    if (token != VERDICT_DONE) return token;
    return grab->units > notice.available ? VERDICT_SOLD_OUT : VERDICT_BUSY;
}

enum verdict engine_refuse_token_early(const struct engine *engine, const struct token_ask *ask)
{
    struct board_notice notice;
    if (!board_read(board_at(engine, ask->sale_id), &notice)) return VERDICT_DONE;
    if (notice.available != 0 || ask->sale_id == 0 || notice.sale_id != ask->sale_id) return VERDICT_DONE;
    if (!text_may_be_kept(ask->buyer, BUYER_BYTES_MAX)) return VERDICT_DONE;
    if (notice_is_closed(&notice, ask->now_ms) || notice.admission != ask->admission) return VERDICT_DONE;
    struct holder holder = holder_of(&engine->holdings, ask->sale_id, ask->buyer);
    return holder_has_nothing(engine, &holder, &notice) ? VERDICT_SOLD_OUT : VERDICT_DONE;
}

bool engine_notice(const struct engine *engine, uint64_t sale_id, struct board_notice *out)
{
    while (!board_read(board_at(engine, sale_id), out)) continue; /* a writer is between two stores */
    return sale_id != 0 && out->sale_id == sale_id;
}
