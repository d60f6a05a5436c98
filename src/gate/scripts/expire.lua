-- expire: the end of holds that were not paid in time, each named by its number. ARGV: run, epoch, no…
--@include number
--@include buyer
--@include order_read
--@include order_line
local count = #ARGV - 2
if count < 1 or count > @GATE_ITEMS_MAX@ then return { 'BAD_INPUT' } end
local numbers, seen = {}, {}
for i = 1, count do
    local no = ARGV[2 + i]
    if not is_number(no) or seen[no] then return { 'BAD_INPUT' } end
    numbers[i], seen[no] = no, true
end
--@include open
local lines = redis.call('HMGET', KEYS[3], unpack(numbers))
local orders, names, listed = {}, {}, {}
local reply, ending = { 'DONE', now, available }, {}
for i = 1, count do
    local order = lines[i] and order_read(lines[i])
    local word = 'DONE'
    if not order then
        word = 'NO_SUCH_ORDER'
    elseif order.state ~= '0' then
        word = 'NOT_HELD'
    else
        ending[#ending + 1] = i
        orders[i] = order
        if not listed[order.buyer] then
            names[#names + 1] = order.buyer
            listed[order.buyer] = true
        end
        held, available = held - order.units, available + order.units
    end
    reply[3 + i] = word
end
if #ending == 0 then return reply end
--@include add_up

local entries, buyers = redis.call('HMGET', KEYS[2], unpack(names)), {}
for i = 1, #names do
    local grabs, returns, standing = buyer_read(entries[i])
    if not grabs then return { 'DAMAGED', 'what stands of a buyer cannot be read' } end
    buyers[names[i]] = { grabs, returns, standing }
end
local ended, gone = {}, {}
for i = 1, #ending do
    local no, order = numbers[ending[i]], orders[ending[i]]
    local buyer = buyers[order.buyer]
    buyer[1], buyer[2] = buyer[1] - 1, buyer[2] + 1
    if buyer[1] < 0 then return { 'DAMAGED', 'a hold is nobody\'s' } end
    order.state = '3'
    ended[2 * i - 1], ended[2 * i], gone[i] = no, order_line(order), no
end
local owners = {}
for i = 1, #names do
    local buyer = buyers[names[i]]
    owners[2 * i - 1], owners[2 * i] = names[i], buyer[1] .. ' ' .. buyer[2] .. ' ' .. buyer[3]
end
redis.call('ZCARD', KEYS[6])
redis.call('HSET', KEYS[3], unpack(ended))
--@include save
redis.call('HSET', KEYS[2], unpack(owners))
redis.call('ZREM', KEYS[6], unpack(gone))
reply[3] = available
return reply
