-- A whole number within bounds, written as everybody writes it; nil for all else. Up to 2^53, as doubles go.
local function whole(text, least, most)
    if #text > 17 or (text ~= '0' and not string.find(text, '^%-?[1-9]%d*$')) then return nil end
    local value = tonumber(text)
    return value >= least and value <= most and value or nil
end
