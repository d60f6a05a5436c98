-- What stands of a buyer: orders that count, orders that have ended, and the one of theirs that counted last; nil: it cannot
-- be read.
local function buyer_read(entry)
    if not entry then return 0, 0, '0' end
    local grabs, returns, standing = string.match(entry, '^(%d+) (%d+) (%d+)$')
    return tonumber(grabs), tonumber(returns), standing
end
