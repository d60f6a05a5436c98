-- P1, of what is about to be written.
if available < 0 or held < 0 or sold < 0 or offered > @STOCK_MAX@ or available + held + sold ~= offered then
    return { 'DAMAGED', 'available + held + sold would not be offered' }
end
