-- Lua writes long numbers as 1e+15.
local function decimal(value)
    return string.format('%.0f', value)
end
