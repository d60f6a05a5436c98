-- By its seller or by its time.
local is_closed = closed == 1 or (closes ~= 0 and now >= closes)
