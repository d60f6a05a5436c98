-- A number of an order or of a token: 1 to 2^63 - 1. It stays a text, for a double would round it.
local function is_number(text)
    return #text <= 19 and string.find(text, '^[1-9]%d*$') and (#text < 19 or text <= '9223372036854775807')
end
