-- Text of users: not empty, not too long, no NUL.
local function is_kept(text, most)
    return text ~= '' and #text <= most and not string.find(text, '\0', 1, true)
end
