-- grab: who gets what, as engine_decide_grab() decides it. ARGV: run, epoch, no, buyer, key, made, units, nonce, flags.
--
-- Everything is read and judged before the first write. That one is the order itself, by HSETNX: where another has its
-- number, nothing has been written yet.
-- A closure costs as much as a look into a table, so what the crowd seldom needs is made where it is needed.
--@include number
--@include kept
local no, buyer, key, made, nonce, flags = ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[8], ARGV[9]
if #ARGV ~= 9 then return { 'BAD_INPUT' } end
local units = 1
if ARGV[7] ~= '1' then
--@include whole
    units = whole(ARGV[7], 1, 4294967295)
end
if not units or not is_number(no) or (nonce ~= '0' and not is_number(nonce)) or
    (buyer ~= '' and not is_kept(buyer, @BUYER_BYTES_MAX@)) or (key ~= '' and not is_kept(key, @IDEMPOTENCY_KEY_BYTES_MAX@)) or
    (flags ~= '' and string.find(flags, '[^batw]')) then
    return { 'BAD_INPUT' }
end
--@include open

-- The name. A claim is named by its number, so who asks again is not found by name. Numbers go on above all that a load has
-- brought: where some were lost before they were filed, there are higher ones than orders.
local claims, claimed = false, nil
if admission == @GATE_ADMISSION_OPEN@ then
    if string.find(buyer, '^claim:') or string.find(buyer, '^key:') or string.find(buyer, '^cut:') then
        return { 'BAD_INPUT' }
    end
    if buyer == '' and key == '' then
        claims = true
        claimed = tonumber(redis.call('HGET', KEYS[1], 'claimed') or nil)
        buyer = string.format('claim:%.0f', math.max(orders_made, claimed or 0) + 1)
    elseif buyer == '' then
        if not is_kept(made, @BUYER_BYTES_MAX@) or not (string.find(made, '^key:') or string.find(made, '^cut:')) then
            return { 'BAD_INPUT' }
        end
        buyer = made
    end
elseif buyer == '' then
    return { 'BUSY', now, available }
end

-- Who has won nothing is in no table: the crowd costs one look.
local entry = redis.call('HGET', KEYS[2], buyer)
local grabs, returns, standing = 0, 0, '0'
if entry then
    grabs, returns, standing = string.match(entry, '^(%d+) (%d+) (%d+)$')
    grabs, returns = tonumber(grabs), tonumber(returns)
end
if entry or claims then
    local line = redis.call('HGET', KEYS[3], no)
    if line then
--@include order_read
        local order = order_read(line)
        if order.units ~= units or order.key ~= key or not (claims or order.buyer == buyer) then
            return { 'NUMBER_TAKEN', now, available }
        end
        if claims then grabs = tonumber(string.match(redis.call('HGET', KEYS[2], order.buyer) or '0', '^%d+')) end
        return { 'WON', now, available, math.max(grabs_max - grabs, 0), '', no, line }
    end
end
if entry and key ~= '' then
    local before = redis.call('HGET', KEYS[4], buyer .. '\0' .. key)
    if before then
        local line = redis.call('HGET', KEYS[3], before)
        if not line then return { 'DAMAGED', 'a key names an order that is not there' } end
        if tonumber(string.match(line, '^%d (%d+) ')) ~= units then return { 'KEY_REUSED', now, available } end
        return { 'REPEATED', now, available, 0, '', before, line }
    end
end

-- The order of these is part of the API: a buyer sees the first that applies.
local has_won = grabs >= grabs_max
local verdict = nil
local brought, away, trusted, won_first = false, false, false, false
if flags ~= '' then
    brought, away = string.find(flags, 'b', 1, true), string.find(flags, 'a', 1, true)
    trusted, won_first = string.find(flags, 't', 1, true), string.find(flags, 'w', 1, true)
end
--@include closed
if has_won and won_first then
    verdict = 'ALREADY_WON'
elseif is_closed then
    verdict = 'CLOSED'
elseif now < opens then
    verdict = 'NOT_OPEN'
elseif paused == 1 then
    verdict = 'PAUSED'
end
if admission < @GATE_ADMISSION_TOKEN@ or trusted then
    nonce = '0'
elseif not verdict then
    if nonce ~= '0' then
        if redis.call('HGET', KEYS[5], buyer) ~= nonce then verdict = 'TOKEN_INVALID' end
    elseif brought then
        verdict = 'TOKEN_INVALID'
    elseif admission == @GATE_ADMISSION_TOKEN@ then
        verdict = 'TOKEN_REQUIRED'
    end
end
if not verdict then
    if units > units_max then
        verdict = 'OVER_LIMIT'
    elseif has_won then
        verdict = 'ALREADY_WON'
    elseif returns >= @RETURNS_PER_BUYER_MAX@ then
        verdict = 'TOO_MANY_RETURNS'
    elseif units > available then
        verdict = 'SOLD_OUT'
    elseif away then
        verdict = 'BUSY'
    end
end
if verdict == 'ALREADY_WON' then
    local line = redis.call('HGET', KEYS[3], standing)
    if not line then return { 'DAMAGED', 'a buyer has an order that is not there' } end
    return { verdict, now, available, 0, '', standing, line }
end
if verdict then return { verdict, now, available } end
--@include room

-- Each number becomes a text once, and units came as one.
local amount = price < 0 and '-1' or string.format('%.0f', price * units)
local at, pay_by = string.format('%.0f', now), '0'
available = available - units
if pay_within > 0 then
    pay_by = string.format('%.0f', now + pay_within * 1000)
    held = held + units
else
    sold = sold + units
end
orders_made = orders_made + 1
--@include add_up

local line = (pay_by ~= '0' and '0 ' or '1 ') .. ARGV[7] .. ' ' .. amount .. ' ' .. at .. ' ' .. pay_by .. ' ' .. nonce .. ' ' ..
    #buyer .. ' ' .. #key .. ' 0 ' .. buyer .. key
if redis.call('HSETNX', KEYS[3], no, line) == 0 then return { 'NUMBER_TAKEN', now, available + units } end
--@include save
redis.call('HSET', KEYS[2], buyer, entry and (grabs + 1) .. ' ' .. returns .. ' ' .. no or '1 0 ' .. no)
if claimed then redis.call('HSET', KEYS[1], 'claimed', string.sub(buyer, #'claim:' + 1)) end
if key ~= '' then redis.call('HSET', KEYS[4], buyer .. '\0' .. key, no) end
if nonce ~= '0' then redis.call('HDEL', KEYS[5], buyer) end
if pay_by ~= '0' then redis.call('ZADD', KEYS[6], pay_by, no) end
local entry_id = redis.call('XADD', KEYS[7], '*', 'kind', 'won', 'epoch', epoch, 'at', at, 'no', no, 'order', line)
return { 'WON', now, available, grabs_max - grabs - 1, entry_id, no, line }
