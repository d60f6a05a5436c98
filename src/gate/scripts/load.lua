-- load: puts a sale into the gate as the ledger has it, in three steps: begin, chunks, end. ARGV: run, epoch, step, more.
-- Before it, a sale that still sells is shut.
--
-- Nothing is sold between begin and end. A chunk may come twice. What cannot be is DAMAGED, and the sale stays shut.
-- Orders are not held against the terms: those may have changed since, and each has its own amount.
--@include whole
--@include number
--@include kept
--@include buyer
--@include order_line
--@include terms_read
local step = ARGV[3]
local epoch_new = ARGV[2] and whole(ARGV[2], 1, 9007199254740991)
if not epoch_new or ARGV[1] == '' or #ARGV[1] > 255 then return { 'BAD_INPUT' } end

if step == 'begin' then
    if #ARGV ~= 23 then return { 'BAD_INPUT' } end
    local is_open, run, epoch = 0, ARGV[1], ARGV[2]
    local now, offered, available, held, sold = whole(ARGV[4], 0, @TIME_MS_MAX@), whole(ARGV[5], 0, @STOCK_MAX@),
        whole(ARGV[6], 0, @STOCK_MAX@), whole(ARGV[7], 0, @STOCK_MAX@), whole(ARGV[8], 0, @STOCK_MAX@)
    local orders_made, tokens_given = whole(ARGV[9], 0, 9007199254740991), whole(ARGV[10], 0, 9007199254740991)
    local given = terms_read(11)
    local paused, closed, log_max, version = whole(ARGV[20], 0, 1), whole(ARGV[21], 0, 1), whole(ARGV[22], 1, @GATE_LOG_MAX@),
        whole(ARGV[23], 0, 9007199254740991)
    if not (now and offered and available and held and sold and orders_made and tokens_given and given and paused and closed and
        log_max and version) then
        return { 'BAD_INPUT' }
    end
--@include add_up
    local price, units_max, grabs_max, opens, closes, pay_within, admission, tokens_max, late_payment = unpack(given)
    -- What cannot be read keeps nobody from building the sale.
    local before = redis.call('HMGET', KEYS[1], 'terms', 'counts')
    local was = before[1] and { pcall(struct.unpack, @GATE_TERMS_FORMAT@, before[1]) } or {}
    local is_open_was, run_was, epoch_was = was[2] == 1, was[16], was[1] and whole(was[17], 1, 9007199254740991)
    if epoch_was then
        local is_counted = before[2] and #before[2] == @GATE_COUNTS_BYTES@
        local now_was, offered_was, available_was = 0, 0, 0
        if is_counted then now_was, offered_was, available_was = struct.unpack(@GATE_COUNTS_FORMAT@, before[2]) end
        if is_counted and epoch_new == epoch_was and run == run_was and is_open_was then
            return { 'REPEATED', now_was, available_was }
        end
        if epoch_new < epoch_was or (epoch_new == epoch_was and is_open_was) then
            return { 'STALE', run_was, was[17], now_was }
        end
    end
--@include clock
    redis.call('UNLINK', unpack(KEYS))
    -- Every command that a decision writes with, tried where its failing harms nobody: one that the server's rules forbid
    -- this user would break a decision in two.
    redis.call('HSETNX', KEYS[3], '0', '')
    redis.call('HDEL', KEYS[3], '0')
    redis.call('ZADD', KEYS[6], 0, '0')
    redis.call('ZREM', KEYS[6], '0')
    redis.call('PERSIST', KEYS[3])
    redis.call('XDEL', KEYS[7], redis.call('XADD', KEYS[7], '*', 'kind', 'none'))
--@include save_terms
--@include save
    redis.call('HSET', KEYS[1], 'loaded', struct.pack('>ddddd', 0, 0, 0, 0, 0))
    return { 'DONE', now, available }
end

-- A sale is shut whatever its lineage: nodes that do not know of a change yet still sell by what stands here. What is of
-- another kind goes: nobody can read it. Where its state is gone, or cannot be read, a sale decides nothing either.
if step == 'shut' then
--@include kinds
    if odd[1] then redis.call('UNLINK', unpack(odd)) end
end
local left = step == 'shut' and redis.call('HGET', KEYS[1], 'terms')
if left then ARGV[1] = select(16, pcall(struct.unpack, @GATE_TERMS_FORMAT@, left)) or '' end
--@include state
if epoch ~= ARGV[2] then return { 'STALE', run, epoch, now } end
if step == 'shut' then
    is_open = 0
--@include save_terms
    return { 'DONE', now, available }
end
if is_open == 1 then return { 'REPEATED', now, available } end
local loaded = redis.call('HGET', KEYS[1], 'loaded')
if not loaded then return { 'STALE', run, epoch, now } end
local held_loaded, sold_loaded, orders, tokens, tokens_lost = struct.unpack('>ddddd', loaded)
--@include clock

if step == 'end' then
    local orders_sent, tokens_sent = #ARGV == 5 and whole(ARGV[4], 0, @ORDERS_OPEN_MAX@), #ARGV == 5 and whole(ARGV[5], 0, @TOKENS_MAX@)
    if not orders_sent or not tokens_sent then return { 'BAD_INPUT' } end
    if orders ~= orders_sent or orders ~= redis.call('HLEN', KEYS[3]) then
        return { 'DAMAGED', 'not all orders have come' }
    end
    if tokens + tokens_lost ~= tokens_sent or tokens ~= redis.call('HLEN', KEYS[5]) then
        return { 'DAMAGED', 'not all tokens have come' }
    end
    if held_loaded ~= held or sold_loaded ~= sold then
        return { 'DAMAGED', 'the orders hold and have bought other units than the sale says' }
    end
    if orders > orders_made or tokens > tokens_given then return { 'DAMAGED', 'more orders or tokens than were ever made' } end
--@include add_up
    is_open = 1
--@include save_terms
--@include save
    redis.call('HDEL', KEYS[1], 'loaded')
    return { 'DONE', now, available }
end
if step ~= 'chunk' then return { 'BAD_INPUT' } end

-- An order has ten words after 'order', a token two after 'token'.
local new, numbers, names, named, givens, at = {}, {}, {}, {}, {}, 4
local function name_add(buyer)
    if named[buyer] then return end
    names[#names + 1] = buyer
    named[buyer] = #names
end
while at <= #ARGV do
    local word = ARGV[at]
    if word == 'order' and at + 10 <= #ARGV then
        local no, order = ARGV[at + 1], {
            state = ARGV[at + 2], units = whole(ARGV[at + 3], 1, @STOCK_MAX@), amount = ARGV[at + 4], at = ARGV[at + 5],
            pay_by = ARGV[at + 6], nonce = ARGV[at + 7], buyer = ARGV[at + 8], key = ARGV[at + 9], ref = ARGV[at + 10],
        }
        local won, pay_by = whole(order.at, 0, @TIME_MS_MAX@), whole(order.pay_by, 0, @TIME_MS_MAX@ + @PAY_WITHIN_S_MAX@ * 1000)
        local is_due = order.state == '4' or (order.state == '1' and order.pay_by ~= '0')
        if not is_number(no) or not string.find(order.state, '^[01234]$') or not order.units or
            not whole(order.amount, -1, @AMOUNT_MAX@) or not won or not pay_by or
            not (order.nonce == '0' or is_number(order.nonce)) or not is_kept(order.buyer, @BUYER_BYTES_MAX@) or
            not (order.key == '' or is_kept(order.key, @IDEMPOTENCY_KEY_BYTES_MAX@)) or
            not (order.ref == '' or is_kept(order.ref, @PAYMENT_REF_BYTES_MAX@)) then
            return { 'BAD_INPUT' }
        end
        if (pay_by == 0 and order.state ~= '1') or (pay_by ~= 0 and pay_by <= won) then
            return { 'DAMAGED', 'order ' .. no .. ' has no possible time to pay by' }
        end
        if is_due ~= (order.ref ~= '') and order.state ~= '2' and order.state ~= '3' then
            return { 'DAMAGED', 'order ' .. no .. ' and its payment do not go together' }
        end
        numbers[#numbers + 1], new[#new + 1] = no, order
        name_add(order.buyer)
        at = at + 11
    elseif word == 'token' and at + 2 <= #ARGV then
        if not is_kept(ARGV[at + 1], @BUYER_BYTES_MAX@) or not is_number(ARGV[at + 2]) then return { 'BAD_INPUT' } end
        givens[#givens + 1], givens[#givens + 2] = ARGV[at + 1], ARGV[at + 2]
        at = at + 3
    else
        return { 'BAD_INPUT' }
    end
end
if #new + #givens / 2 > @GATE_ITEMS_MAX@ or #new + #givens == 0 then return { 'BAD_INPUT' } end

local lines, places, holds, keys, has, buyers, claimed = {}, {}, {}, {}, {}, {}, 0
if #new > 0 then
    local known = redis.call('HMGET', KEYS[3], unpack(numbers))
    local entries = redis.call('HMGET', KEYS[2], unpack(names))
    for i = 1, #names do
        local grabs, returns, standing = buyer_read(entries[i])
        buyers[i] = { grabs, returns, standing }
        claimed = math.max(claimed, tonumber(string.match(names[i], '^claim:(%d+)$') or 0))
    end
    for i = 1, #new do
        local no, order = numbers[i], new[i]
        local line = order_line(order)
        local before = known[i] or places[no]
        if before and before ~= line then return { 'DAMAGED', 'there is another order ' .. no } end
        if not before then
            local buyer, counts = buyers[named[order.buyer]], order.state == '0' or order.state == '1'
            -- Of those that count the newest stands; where none counts, nobody asks.
            local standing = buyer[3]
            if counts and (#no > #standing or (#no == #standing and no > standing)) then buyer[3] = no end
            buyer[counts and 1 or 2] = buyer[counts and 1 or 2] + 1
            if order.key ~= '' then
                local field = order.buyer .. '\0' .. order.key
                if has[field] or redis.call('HEXISTS', KEYS[4], field) == 1 then
                    return { 'DAMAGED', 'the key of order ' .. no .. ' has won before' }
                end
                has[field], keys[#keys + 1], keys[#keys + 2] = true, field, no
            end
            if order.state == '0' then
                held_loaded = held_loaded + order.units
                holds[#holds + 1], holds[#holds + 2] = order.pay_by, no
            elseif order.state == '1' then
                sold_loaded = sold_loaded + order.units
            end
            orders, places[no] = orders + 1, line
            lines[#lines + 1], lines[#lines + 2] = no, line
        end
    end
end
-- A gate that had lost a token gave the buyer another: of several the last is good, which is told to whoever asks again.
local spare = {}
for i = 1, #givens, 2 do
    local buyer, nonce = givens[i], givens[i + 1]
    local before = spare[buyer] or redis.call('HGET', KEYS[5], buyer)
    if not before then
        tokens, spare[buyer] = tokens + 1, nonce
    elseif before ~= nonce then
        tokens_lost = tokens_lost + 1
        if #nonce > #before or (#nonce == #before and nonce > before) then spare[buyer] = nonce end
    end
end

if #lines > 0 then
    redis.call('HSET', KEYS[3], unpack(lines))
    for i = 1, #names do redis.call('HSET', KEYS[2], names[i], buyers[i][1] .. ' ' .. buyers[i][2] .. ' ' .. buyers[i][3]) end
end
if #keys > 0 then redis.call('HSET', KEYS[4], unpack(keys)) end
if #holds > 0 then redis.call('ZADD', KEYS[6], unpack(holds)) end
for buyer, nonce in pairs(spare) do redis.call('HSET', KEYS[5], buyer, nonce) end
redis.call('HSET', KEYS[1], 'loaded', struct.pack('>ddddd', held_loaded, sold_loaded, orders, tokens, tokens_lost))
if admission == @GATE_ADMISSION_OPEN@ and claimed > tonumber(redis.call('HGET', KEYS[1], 'claimed') or 0) then
    redis.call('HSET', KEYS[1], 'claimed', string.format('%.0f', claimed))
end
return { 'DONE', now, available, orders, tokens }
