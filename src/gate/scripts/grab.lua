-- grab: who gets what, as engine_decide_grab() decides it, for 1 to GATE_GRABS_MAX grabs one after the other. ARGV: run, epoch,
-- then for each: no, buyer, key, made, units, nonce, flags.
--
-- Of each everything is read and judged before its first write. That one is the order itself, by HSETNX: where another has its
-- number, nothing has been written yet; and where the log takes no entry, it is taken back. The counts are written once, behind
-- all of them: so nothing else may fail once one has won. What cannot be read is an answer, and before the first write every
-- key has been looked at that a later grab may need.
-- A loop that is left by break, and no function: a closure costs as much as a look into a table, so what the crowd seldom
-- needs is made where it is needed.
--@include number
--@include kept
local count = (#ARGV - 2) / @GATE_GRAB_WORDS@
if count < 1 or count > @GATE_GRABS_MAX@ or count % 1 ~= 0 then return { 'BAD_INPUT' } end
--@include open
--@include closed
local at = string.format('%.0f', now)
local pay_by = pay_within > 0 and string.format('%.0f', now + pay_within * 1000) or '0'
local claimed, places, won, answers = nil, nil, false, {}
for i = 1, count do
    repeat
        local first = @GATE_GRAB_WORDS@ * (i - 1) + 3
        local no, buyer, key, nonce, flags = ARGV[first], ARGV[first + 1], ARGV[first + 2], ARGV[first + 5], ARGV[first + 6]
        local units = 1
        if ARGV[first + 4] ~= '1' then
--@include whole
            units = whole(ARGV[first + 4], 1, 4294967295)
        end
        answers[i] = { 'BAD_INPUT' }
        if not units or not is_number(no) or (nonce ~= '0' and not is_number(nonce)) or
            (buyer ~= '' and not is_kept(buyer, @BUYER_BYTES_MAX@)) or (key ~= '' and not is_kept(key, @IDEMPOTENCY_KEY_BYTES_MAX@)) or
            (flags ~= '' and string.find(flags, '[^batw]')) then
            break
        end

        -- The name. A claim is named by its number, so who asks again is not found by name. Numbers go on above all that a load
        -- has brought: where some were lost before they were filed, there are higher ones than orders.
        local claims = false
        if admission == @GATE_ADMISSION_OPEN@ then
            if string.find(buyer, '^claim:') or string.find(buyer, '^key:') or string.find(buyer, '^cut:') then break end
            if buyer == '' and key == '' then
                claims = true
                claimed = claimed or tonumber(redis.call('HGET', KEYS[1], 'claimed') or nil)
                buyer = string.format('claim:%.0f', math.max(orders_made, claimed or 0) + 1)
            elseif buyer == '' then
                buyer = ARGV[first + 3]
                if not is_kept(buyer, @BUYER_BYTES_MAX@) or not (string.find(buyer, '^key:') or string.find(buyer, '^cut:')) then break end
            end
        elseif buyer == '' then
            answers[i] = { 'BUSY', now, available }
            break
        end

        -- Who has won nothing is in no table: the crowd costs one look.
        local entry = redis.call('HGET', KEYS[2], buyer)
        local grabs, returns, standing = 0, 0, '0'
        if entry then
            grabs, returns, standing = string.match(entry, '^(%d+) (%d+) (%d+)$')
            grabs, returns = tonumber(grabs), tonumber(returns)
            if not grabs then
                answers[i] = { 'DAMAGED', 'what stands of a buyer cannot be read' }
                break
            end
        end
        if entry or claims then
            local line = redis.call('HGET', KEYS[3], no)
            if line then
--@include order_read
                local order = order_read(line)
                if not order then
                    answers[i] = { 'DAMAGED', 'an order cannot be read' }
                    break
                end
                answers[i] = { 'NUMBER_TAKEN', now, available }
                if order.units ~= units or order.key ~= key or not (claims or order.buyer == buyer) then break end
                if claims then grabs = tonumber(string.match(redis.call('HGET', KEYS[2], order.buyer) or '', '^%d+') or 0) end
                answers[i] = { 'WON', now, available, math.max(grabs_max - grabs, 0), '', no, line }
                break
            end
        end
        if entry and key ~= '' then
            local before = redis.call('HGET', KEYS[4], buyer .. '\0' .. key)
            if before then
                local line = redis.call('HGET', KEYS[3], before)
                local units_then = line and string.match(line, '^%d (%d+) ')
                if not units_then then
                    answers[i] = { 'DAMAGED', 'a key names an order that is not there, or cannot be read' }
                elseif tonumber(units_then) ~= units then
                    answers[i] = { 'KEY_REUSED', now, available }
                else
                    answers[i] = { 'REPEATED', now, available, 0, '', before, line }
                end
                break
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
            answers[i] = line and { verdict, now, available, 0, '', standing, line } or { 'DAMAGED', 'a buyer has an order that is not there' }
            break
        end
        if not verdict then
            places = places or log_max - redis.call('XLEN', KEYS[7])
            if places <= 0 then verdict = 'FULL' end
        end
        if verdict then
            answers[i] = { verdict, now, available }
            break
        end

        -- Each number becomes a text once, and units came as one.
        local amount = price < 0 and '-1' or string.format('%.0f', price * units)
        local line = (pay_by ~= '0' and '0 ' or '1 ') .. ARGV[first + 4] .. ' ' .. amount .. ' ' .. at .. ' ' .. pay_by .. ' ' .. nonce .. ' ' ..
            #buyer .. ' ' .. #key .. ' 0 ' .. buyer .. key
        if not won then
--@include add_up
            redis.call('HLEN', KEYS[4])
            if admission >= @GATE_ADMISSION_TOKEN@ then redis.call('HLEN', KEYS[5]) end
            if pay_by ~= '0' then redis.call('ZCARD', KEYS[6]) end
        end
        if redis.call('HSETNX', KEYS[3], no, line) == 0 then
            answers[i] = { 'NUMBER_TAKEN', now, available }
            break
        end
        local entry_id = redis.pcall('XADD', KEYS[7], '*', 'kind', 'won', 'epoch', epoch, 'at', at, 'no', no, 'order', line)
        if type(entry_id) == 'table' then
            redis.call('HDEL', KEYS[3], no)
            answers[i] = { 'DAMAGED', 'its log takes no entry: ' .. entry_id.err }
            break
        end
        won = true
        available, places, orders_made = available - units, places - 1, orders_made + 1
        if pay_by ~= '0' then
            held = held + units
            redis.call('ZADD', KEYS[6], pay_by, no)
        else
            sold = sold + units
        end
        redis.call('HSET', KEYS[2], buyer, entry and (grabs + 1) .. ' ' .. returns .. ' ' .. no or '1 0 ' .. no)
        if claimed and claims then claimed = tonumber(string.sub(buyer, #'claim:' + 1)) end
        if key ~= '' then redis.call('HSET', KEYS[4], buyer .. '\0' .. key, no) end
        if nonce ~= '0' then redis.call('HDEL', KEYS[5], buyer) end
        answers[i] = { 'WON', now, available, grabs_max - grabs - 1, entry_id, no, line }
    until true
end
if won then
--@include save
    if claimed then redis.call('HSET', KEYS[1], 'claimed', string.format('%.0f', claimed)) end
end
return answers
