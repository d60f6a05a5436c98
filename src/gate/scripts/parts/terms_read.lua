-- The numbers of the terms from ARGV[first] on, in the order of GATE_SALE_NUMBERS; nil where one is out of bounds or two
-- contradict each other, as sale_terms_objection() has it.
local function terms_read(first)
    local given = {}
    local bounds = { -1, @PRICE_MAX@, 1, @UNITS_PER_GRAB_MAX@, 1, @GRABS_PER_BUYER_MAX@, 0, @TIME_MS_MAX@, 0, @TIME_MS_MAX@,
        0, @PAY_WITHIN_S_MAX@, 0, @GATE_ADMISSION_LAST@, 0, @TOKENS_MAX@, 0, @GATE_LATE_PAYMENT_LAST@ }
    for i = 1, 9 do
        given[i] = whole(ARGV[first + i - 1], bounds[2 * i - 1], bounds[2 * i])
        if not given[i] then return nil end
    end
    if given[5] ~= 0 and given[5] <= given[4] then return nil end
    if given[1] > 0 and given[1] * given[2] > @AMOUNT_MAX@ then return nil end
    return given
end
