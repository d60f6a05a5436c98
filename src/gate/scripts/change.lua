-- change: what the seller sets, as engine_decide_change() and engine_decide_switch() decide it.
-- ARGV: run, epoch, what, version, filed, note; for terms, nine numbers and fixed more; for sale, paused and closed after those.
--@include whole
--@include kept
--@include terms_read
local what, filed, note = ARGV[3], ARGV[5], ARGV[6]
local is_sale = what == 'sale'
local is_terms = what == 'terms' or is_sale
if #ARGV ~= (is_sale and 18 or is_terms and 16 or 6) or not (is_terms or what == 'pause' or what == 'resume' or what == 'close') or
    (filed ~= '0' and filed ~= '1') or (is_sale and filed == '0') or #note > @GATE_NOTE_BYTES_MAX@ then
    return { 'BAD_INPUT' }
end
local paused_new, closed_new = is_sale and whole(ARGV[17], 0, 1), is_sale and whole(ARGV[18], 0, 1)
if is_sale and not (paused_new and closed_new) then return { 'BAD_INPUT' } end
local version_new = whole(ARGV[4], 0, 9007199254740991)
local given = is_terms and terms_read(7)
if not version_new or (is_terms and (not given or #ARGV[16] > @GATE_NOTE_BYTES_MAX@)) then return { 'BAD_INPUT' } end
--@include open
if version_new ~= 0 and version_new <= version then return { 'REPEATED', now, available } end
local fixed = redis.call('HGET', KEYS[1], 'fixed')
if filed == '0' then
--@include closed
    if is_closed then return { 'CLOSED', now, available } end
    if what == 'pause' and paused == 1 then return { 'PAUSED', now, available } end
    if what == 'resume' and paused == 0 then return { 'NOT_PAUSED', now, available } end
    if is_terms and now >= opens then
        -- What buyers have relied on since the sale opened. It may close later, and give another time to pay.
        local closes_no_earlier = given[5] == 0 or (closes ~= 0 and given[5] >= closes)
        if not closes_no_earlier or given[1] ~= price or given[2] ~= units_max or given[3] ~= grabs_max or given[4] ~= opens or
            given[7] ~= admission or given[8] ~= tokens_max or given[9] ~= late_payment or ARGV[16] ~= fixed then
            return { 'SALE_OPEN', now, available }
        end
    end
end
--@include room_unless_filed
--@include add_up
if is_terms then
    price, units_max, grabs_max, opens, closes, pay_within, admission, tokens_max, late_payment = unpack(given)
    redis.call('HSET', KEYS[1], 'fixed', ARGV[16])
elseif what == 'close' then
    closed = 1
else
    paused = what == 'pause' and 1 or 0
end
if is_sale then paused, closed = paused_new, closed_new end
if version_new ~= 0 then version = version_new end
--@include save_terms
--@include save
local entry_id = ''
if filed == '0' then
    local kinds = { terms = 'sale_changed', pause = 'sale_paused', resume = 'sale_resumed', close = 'sale_closed' }
    entry_id = redis.call('XADD', KEYS[7], '*', 'kind', kinds[what], 'epoch', epoch, 'at', now, 'version', ARGV[4], 'note', note)
end
return { 'DONE', now, available, '', entry_id }
