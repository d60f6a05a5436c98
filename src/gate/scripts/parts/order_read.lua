-- The order of a line, as scripts.h has it; nil: it cannot be read. Numbers stay texts but for those that are counted with.
local function order_read(line)
    local state, units, amount, at, pay_by, nonce, buyer_len, key_len, ref_len, from =
        string.match(line, '^(%d) (%d+) (%-?%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) ()')
    if not from then return nil end
    local key_from = from + buyer_len
    local ref_from = key_from + key_len
    if #line ~= ref_from + ref_len - 1 then return nil end
    return {
        state = state, units = tonumber(units), amount = amount, at = at, pay_by = pay_by, nonce = nonce,
        buyer = string.sub(line, from, key_from - 1), key = string.sub(line, key_from, ref_from - 1),
        ref = string.sub(line, ref_from, ref_from + ref_len - 1),
    }
end
